"""`xoff trace`: one packet's way, told as the fabric really takes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.dynamics.lab import chain_ns, run
from xoff import cli
from xoff.experiment import Experiment
from xoff.tracing import Journey, trace_journey

FABRIC: dict[str, Any] = {
    "topology": "fattree:k=4",
    "workload": {"kind": "incast", "senders": 1, "bytes": 1024},
}
RATE, DELAY = 100 * 10**9, 1_000


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, set[tuple[str, int]]]:
    """(sender, receiver, the switch ports that carried the packet) of a run with one message."""
    outcome = run(tmp_path_factory.mktemp("run"), **FABRIC, sample="1ms")
    (message,) = outcome.of("message")
    sent = {(r["node"], r["port"]) for r in outcome.of("port") if r["tx_bytes"] >= 1024}
    return message["src"], message["dst"], {end for end in sent if end[1]}


@pytest.fixture(scope="module")
def journey(taken: tuple[str, str, set[tuple[str, int]]]) -> Journey:
    return trace_journey(Experiment(**FABRIC), taken[0], taken[1], None, 1024, 3)


def test_the_packet_takes_the_ports_that_a_run_takes(
    journey: Journey, taken: tuple[str, str, set[tuple[str, int]]]
) -> None:
    assert len(journey.hops) == 5
    assert {(hop.switch, port) for hop in journey.hops for port, _, _ in hop.onward} == taken[2]


def test_it_is_there_when_links_and_wires_allow(journey: Journey) -> None:
    size = len(journey.frame) + 24
    assert [(time, host) for time, host, _ in journey.delivered] == [
        (chain_ns([size], [RATE] * 6, DELAY), journey.receiver)
    ]
    assert [hop.arrived_ns for hop in journey.hops] == [
        chain_ns([size], [RATE] * links, DELAY) for links in range(1, 6)
    ]


def test_a_hop_is_told_by_its_tables_and_ports(journey: Journey) -> None:
    text = journey.text()
    assert text.startswith(f"{journey.sender} sends 1102 bytes to {journey.receiver}\n 1  e")
    assert text.count("ipv4_lpm[dst = 10.0.") == 5 and "-> to_group(group = " in text
    assert text.splitlines()[-2].endswith(f"to {journey.receiver}")
    assert max(map(len, journey.text(full=True).splitlines())) < 250


def xoff(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["xoff", "trace", *words])
    code: Any = 0
    try:
        cli.main()
    except SystemExit as stopped:
        code = stopped.code or 0
    out, err = capsys.readouterr()
    return int(code), out, " ".join(err.split())


SMALL = ("--topology", "leafspine:leaves=2,spines=1,hosts_per_leaf=1")


def test_one_switch_is_told_step_by_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = xoff(monkeypatch, capsys, "s1", "--from", "h1", "--to", "h2", *SMALL)
    assert code == 0
    assert "table FabricIngress.routing.ipv4_lpm with dst = 10.0." in out
    assert "ipv4.ttl: 63 (0x3f) -> 62 (0x3e)" in out and "l1: in by" not in out


def test_a_route_that_ends_nowhere_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "loop.yaml"
    file.write_text("topology: ring:n=3\nroutes: [s1 to h2 via s3, s3 to h2 via s1]\n")
    code, out, _ = xoff(monkeypatch, capsys, "--from", "h1", "--to", "h2", "--experiment", str(file))
    # TTL 64: 63 switches send it on, the 64th finds it used up.
    lines = out.splitlines()
    assert code == 0 and lines[-1] == "h2 never gets it" and "marked it to be dropped in ingress" in lines[-2]
    assert sum(": in by port" in line for line in lines) == 64


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "give two hosts"),
        (("--from", "h1", "--to", "h9", *SMALL), "there is no host"),
        (("--from", "h1", "--to", "h1", *SMALL), "sends to itself"),
        (("x9", "--from", "h1", "--to", "h2", *SMALL), "there is no switch"),
        (("--from", "h1", "--to", "h2", "--class", "9", *SMALL), "not 0 to 7"),
    ],
)
def test_what_cannot_be_traced_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    code, _, err = xoff(monkeypatch, capsys, *words)
    assert code == 1 and sentence in err


def test_a_switch_off_the_way_is_told_where_the_packet_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = xoff(monkeypatch, capsys, "e8", "--from", "h1", "--to", "h3")
    assert code == 1 and "does not come to e8; it meets e1, a" in err


def test_data_and_words_are_the_same_story(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = xoff(monkeypatch, capsys, "--from", "h1", "--to", "h2", "--json", *SMALL)
    data = json.loads(out)
    assert code == 0 and [hop["switch"] for hop in data["hops"]] == ["l1", "s1", "l2"]
    assert data["delivered"][0]["host"] == "h2" and data["hops"][0]["onward"][0]["node"] == "s1"


def test_a_program_of_ones_own_is_traced_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from xoff.prepare import compile_program

    learning = Path(__file__).parent / "learning.p4"
    files = compile_program(Experiment(program=str(learning))).write(tmp_path)
    frame = "020000000001" + "020000000002" + "0800" + "45000014" + "0" * 24 + "0a000001"
    code, out, _ = xoff(
        monkeypatch, capsys, "--program", str(files.json), "--p4info", str(files.p4info), "--packet", frame
    )
    assert code == 0 and "a digest is sent" in out and "to be dropped" in out


def test_the_help_shows_how_to_begin() -> None:
    result = CliRunner().invoke(cli.app, ["trace", "--help"])
    assert "xoff trace --from h1 --to h9" in result.output
