"""TLS and client certificates of the switch's gRPC server, with certificates made here by openssl."""

import json
import shutil
import subprocess
import sys

import grpc
import pytest
from finsy.proto import p4r, p4r_grpc
from p4programs import ROOT, compiled
from test_daemon import Process

from switch.control_client import ControlClient, ControlRefusedError
from switch.native.options import OptionsError, parse_options

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class Authority:
    """A certificate authority in a folder."""

    def __init__(self, folder, name):
        self.folder = folder
        self.certificate, self.key = folder / f"{name}.pem", folder / f"{name}.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)  # fmt: skip

    def issue(self, name):
        """(certificate, key) for 127.0.0.1."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", request)  # fmt: skip
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial",
                "-days", 2, "-extfile", extensions, "-out", certificate)  # fmt: skip
        return certificate, key


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ca"), "authority")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("other"), "stranger")


@pytest.fixture
def start():
    processes = []

    def start(*tls):
        json_path, p4info = compiled("entities")
        processes.append(
            Process(
                "--device-id",
                3,
                "--name",
                "s1",
                "--p4info",
                p4info,
                json_path,
                "--",
                "--grpc-server-addr",
                "127.0.0.1:0",
                *tls,
            )
        )
        return processes[-1]

    yield start
    for process in processes:
        process.close()


def capabilities(channel):
    with channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        return stub.Capabilities(p4r.CapabilitiesRequest(), timeout=20).p4runtime_api_version


def credentials(authority, certificate=None, key=None):
    return grpc.ssl_channel_credentials(
        authority.certificate.read_bytes(),
        key and key.read_bytes(),
        certificate and certificate.read_bytes(),
    )


def test_a_server_with_a_certificate_speaks_tls_only(authority, stranger, start):
    certificate, key = authority.issue("switch")
    address = start("--grpc-server-ssl", "--grpc-server-cert", certificate, "--grpc-server-key", key).ready()[
        "s1"
    ]
    assert capabilities(grpc.secure_channel(address, credentials(authority))).startswith("1.")
    for wrong in (grpc.insecure_channel(address), grpc.secure_channel(address, credentials(stranger))):
        with pytest.raises(grpc.RpcError) as caught:
            capabilities(wrong)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    with ControlClient(address, ca=authority.certificate) as client:
        assert client.call("Describe")["device_id"] == 3
    with ControlClient(address) as client, pytest.raises(ControlRefusedError):
        client.call("Describe")


def test_a_server_that_asks_for_certificates_serves_those_of_its_authority_only(authority, stranger, start):
    certificate, key = authority.issue("switch2")
    address = start(
        "--grpc-server-ssl", "--grpc-server-cert", certificate, "--grpc-server-key", key,
        "--grpc-server-cacert", authority.certificate, "--grpc-server-with-client-auth",
    ).ready()["s1"]  # fmt: skip
    mine, my_key = authority.issue("controller")
    assert capabilities(grpc.secure_channel(address, credentials(authority, mine, my_key))).startswith("1.")
    foreign, foreign_key = stranger.issue("intruder")
    for wrong in (credentials(authority), credentials(authority, foreign, foreign_key)):
        with pytest.raises(grpc.RpcError) as caught:
            capabilities(grpc.secure_channel(address, wrong))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    done = subprocess.run(
        [sys.executable, "-m", "switch.cli", address, "--json", "--ca", authority.certificate,
         "--cert", mine, "--key", my_key, "describe"],
        capture_output=True, text=True, cwd=ROOT, timeout=60,
    )  # fmt: skip
    assert json.loads(done.stdout)["name"] == "s1"


@pytest.mark.parametrize(
    "break_it, complaint",
    [
        (lambda cert, key: cert.unlink(), "No such file"),
        (lambda cert, key: cert.write_text("nothing"), "holds no certificate in PEM form"),
        (lambda cert, key: key.write_text(cert.read_text()), "holds no private key in PEM form"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_told_in_one_sentence(authority, start, break_it, complaint):
    certificate, key = authority.issue("broken")
    break_it(certificate, key)
    process = start("--grpc-server-ssl", "--grpc-server-cert", certificate, "--grpc-server-key", key)
    event = process.event()
    assert event["event"] == "error" and complaint in event["message"]
    assert process.child.wait(20) == 1


def test_a_certificate_and_a_foreign_key_are_refused(authority, start):
    certificate, _ = authority.issue("first")
    _, key = authority.issue("second")
    event = start("--grpc-server-ssl", "--grpc-server-cert", certificate, "--grpc-server-key", key).event()
    assert event["event"] == "error" and "do not belong together" in event["message"]


@pytest.mark.parametrize(
    "words, complaint",
    [
        ("--grpc-server-cert a.pem", "--grpc-server-cert needs --grpc-server-ssl"),
        ("--grpc-server-with-client-auth", "needs --grpc-server-ssl"),
        ("--grpc-server-ssl --grpc-server-key k", "--grpc-server-ssl needs --grpc-server-cert"),
        ("--grpc-server-ssl --grpc-server-cert c", "--grpc-server-ssl needs --grpc-server-key"),
        (
            "--grpc-server-ssl --grpc-server-cert c --grpc-server-key k --grpc-server-with-client-auth",
            "needs --grpc-server-cacert",
        ),
    ],
)
def test_half_a_tls_set_up_is_refused(words, complaint):
    with pytest.raises(OptionsError) as caught:
        parse_options(["prog.json", "--", *words.split()])
    assert complaint in str(caught.value)


def test_without_being_told_otherwise_the_server_listens_on_loopback_only():
    (device,) = parse_options(["prog.json"]).devices
    assert device.grpc_address.startswith("127.0.0.1:")
