"""Xoff: a laboratory for lossless AI fabrics."""

import os

# gRPC reports on stderr that peers went away, which is how every run ends.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
