"""`python -m tests.differential`: see `tests.differential.run`."""

import sys

from tests.differential.run import main

sys.exit(main())
