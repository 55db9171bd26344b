"""`python -m switch.native`: the native switch, started as simple_switch_grpc is."""

import sys

from switch.native.daemon import main

if __name__ == "__main__":
    sys.exit(main())
