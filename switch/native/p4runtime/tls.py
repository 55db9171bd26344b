"""Certificates of the gRPC server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc


class TlsError(Exception):
    """A certificate or key cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Tls:
    """Files in PEM form."""

    certificate: Path
    """The server's, followed by those that lead to the authority's."""
    key: Path
    """The server's private key."""
    clients_ca: Path | None = None
    """The authority of the clients' certificates; None = clients are not asked for one."""

    def credentials(self) -> grpc.ServerCredentials:
        """Raises TlsError."""
        certificate, key = _pem(self.certificate, "CERTIFICATE"), _pem(self.key, "PRIVATE KEY")
        authority = None if self.clients_ca is None else _pem(self.clients_ca, "CERTIFICATE")
        return grpc.ssl_server_credentials([(key, certificate)], authority, authority is not None)


def _pem(path: Path, kind: str) -> bytes:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TlsError(f"{path} cannot be read: {error.strerror}") from error
    if f"{kind}-----".encode() not in data:
        raise TlsError(f"{path} holds no {kind.lower()} in PEM form")
    return data
