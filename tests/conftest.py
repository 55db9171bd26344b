"""What holds for all tests."""

import os

from hypothesis import settings

# Continuous integration tries the same examples every time, so that it judges the change and not the draw; on a
# developer's machine every run draws new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")
