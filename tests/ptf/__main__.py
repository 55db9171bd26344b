"""`python -m tests.ptf`: see `tests.ptf.run`."""

import sys

from tests.ptf.run import main

sys.exit(main())
