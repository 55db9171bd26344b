"""Errors as P4Runtime reports them: canonical codes, and one `p4.v1.Error` per update of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import grpc
from finsy.proto import p4r, rpc_code, rpc_status

OK = rpc_code.OK
UNKNOWN = rpc_code.UNKNOWN
INVALID_ARGUMENT = rpc_code.INVALID_ARGUMENT
NOT_FOUND = rpc_code.NOT_FOUND
ALREADY_EXISTS = rpc_code.ALREADY_EXISTS
PERMISSION_DENIED = rpc_code.PERMISSION_DENIED
RESOURCE_EXHAUSTED = rpc_code.RESOURCE_EXHAUSTED
FAILED_PRECONDITION = rpc_code.FAILED_PRECONDITION
OUT_OF_RANGE = rpc_code.OUT_OF_RANGE
UNIMPLEMENTED = rpc_code.UNIMPLEMENTED
INTERNAL = rpc_code.INTERNAL
ABORTED = rpc_code.ABORTED

SPACE = "xoff"
"""`p4.v1.Error.space`: whose vendor codes these are."""

STATUS_DETAILS_KEY = "grpc-status-details-bin"
"""Trailing metadata key that carries a serialised `google.rpc.Status` (gRPC's richer error model)."""

_GRPC_CODES = {code.value[0]: code for code in grpc.StatusCode}


class P4RuntimeError(Exception):
    """A request that the server refuses: a `google.rpc.Code` and a sentence."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class BatchError(Exception):
    """Some updates or reads of a batch failed; `results` holds None for each that did not."""

    results: tuple[P4RuntimeError | None, ...]
    what: str

    def status(self) -> rpc_status.Status:
        """The status as the specification wants it: UNKNOWN, one `p4.v1.Error` per element of the batch."""
        status = rpc_status.Status(code=UNKNOWN, message=self.what)
        for result in self.results:
            detail = status.details.add()
            if result is None:
                detail.Pack(p4r.Error(canonical_code=OK))
            else:
                detail.Pack(
                    p4r.Error(
                        canonical_code=result.code, message=result.message, space=SPACE, code=result.code
                    )
                )
        return status


def raise_if_any(results: Sequence[P4RuntimeError | None], what: str) -> None:
    """Raise a BatchError when an element of `results` is an error."""
    if any(result is not None for result in results):
        raise BatchError(tuple(results), what)


def grpc_code(code: int) -> grpc.StatusCode:
    """gRPC's name of a `google.rpc.Code`."""
    return _GRPC_CODES[code]
