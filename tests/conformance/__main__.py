"""`python -m tests.conformance TESTDATA`: see `tests.conformance.run`."""

import sys

from tests.conformance.run import main

sys.exit(main())
