"""A device that listens, for the tests that talk to one over gRPC."""

import pytest
from p4runtime_harness import Served


@pytest.fixture
def served():
    served = Served()
    yield served
    served.close()
