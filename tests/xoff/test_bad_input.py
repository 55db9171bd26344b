"""Whatever a person types or writes into an experiment: one sentence on stderr, an exit code, no traceback, no wait."""

from __future__ import annotations

import sys

import pytest

from xoff import cli

SMALL = ("--clock", "virtual", "--topology", "leafspine:leaves=2,spines=2,hosts_per_leaf=1")


@pytest.fixture
def xoff(monkeypatch, capsys, tmp_path):
    """Runs `xoff` with arguments that it must refuse; returns what it says."""

    def refused(*arguments: str) -> str:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["xoff", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        said = capsys.readouterr().err
        assert stopped.value.code not in (0, None)
        assert "Traceback" not in said
        assert not (tmp_path / "runs").exists(), "it was refused only after the run had begun"
        return " ".join(said.split())

    return refused


@pytest.fixture
def experiment(xoff, tmp_path):
    """Runs an experiment file, on the small virtual fabric unless it says otherwise, that must be refused."""

    def refused(text: str, small: bool = True) -> str:
        path = tmp_path / "e.yaml"
        path.write_text(text)
        return xoff("run", str(path), *(SMALL if small else ()))

    return refused


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("fattree:k=100000000", "at most 1024 switches and 8192 hosts"),
        ("fattree:k=" + "9" * 5000, "k is a whole number"),
        ("torus:dims=100000x100000", "at most 1024 switches"),
        ("torus:dims=" + "9" * 5000 + "x2", "sizes joined by x"),
        ("dragonflyplus:groups=99999", "at most 1024 switches"),
        ("leafspine:leaves=2000", "at most 1024 switches"),
        ("rail:servers=99999", "8192 hosts"),
        ("ring:n=100000", "at most 1024 switches"),
        ("fattree:rate=1e400G", "at most 1000 Tb/s"),
        ("fattree:rate=1e999999999", "is not a quantity"),
        ("fattree:delay=1e300s", "at most"),
        ("[bold]ring", "topology '[bold]ring' is unknown"),
        ("[/]", "[/]: cannot be read"),
        ("/etc/hostname/x", "/etc/hostname/x: cannot be read"),
    ],
)
def test_a_topology_that_cannot_be_is_refused_before_it_is_built(xoff, spec, sentence):
    assert sentence in xoff("topo", spec)


def test_a_topology_file_that_announces_millions_of_nodes_is_refused(xoff, tmp_path):
    (tmp_path / "t.txt").write_text("999999999 1 1\n0\n0 1 1Gbps 1us 0\n")
    assert "at most 1024 switches" in xoff("topo", str(tmp_path / "t.txt"))


@pytest.mark.parametrize(
    ("option", "value", "sentence"),
    [
        ("--workload", "allreduce:channels=10000000", "at most 1000000"),
        ("--workload", "broadcast:slices=100000000", "at most 1000000"),
        ("--workload", "allreduce:bytes=1TiB", "32 bits in RETH"),
        ("--workload", "[/red]", "workload '[/red]' is unknown"),
        ("--congestion-control", "dcqcn:g=nan", "g=nan is not accepted; it is from 0 and up to 1"),
        ("--congestion-control", "dcqcn:g=-1", "g=-1 is not accepted"),
        ("--congestion-control", "dcqcn:order=3", "up to 2"),
        ("--congestion-control", "dcqcn:min_rate_bps=0", "above 0"),
        ("--congestion-control", "hpcc:eta=0", "above 0"),
        ("--congestion-control", "dcqcn:g=0.01,g=0.02", "g is given twice"),
        ("--congestion-control", "dcqcn:preset=paper,preset=lab", "preset is given twice"),
        ("--load-balancing", "reps:buffer=8,buffer=9", "buffer is given twice"),
        ("--load-balancing", "reps:buffer=-1", "buffer=-1 is not accepted; it is 1 to 64"),
        ("--load-balancing", "reps:buffer=99999999999", "buffer=99999999999 is not accepted; it is 1 to 64"),
        ("--congestion-control", "hpcc:max_stage=inf", "is not accepted"),
        ("--rate", "1", "1 b/s cannot be emulated"),
        ("--rate", "1e999", "at most 1000 Tb/s"),
        ("--delay", "100s", "32 bits in the switch"),
        ("--time-scale", "inf", "0.001 to 1e+09"),
        ("--time-scale", "1e-300", "0.001 to 1e+09"),
        ("--seed", "-1", "seed: -1 is not accepted"),
        ("--seed", "99999999999999999999999", "it is 0 to 2147483647"),
        ("--switch", "bmv2", "the virtual clock runs the native switch"),
        ("--controller", "none.py", "builtin, none or the path of a Python file"),
        ("--sample", "0", "sample: it is above 0"),
        ("--sample", "soon", "sample: time 'soon' is not a quantity"),
        ("--time-limit", "1e30s", "time_limit: time '1e30s' must be at most"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_what_would_be_accepted(xoff, option, value, sentence):
    assert sentence in xoff("run", *SMALL, option, value)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--from", "h1", "--to", "h2", "--packet", "0011"), "--packet goes with --program"),
        (("--program", "p.json", "--from", "h1"), "--from does not go with it"),
        (("e1", "--program", "p.json", "--packet", "00"), "SWITCH does not go with it"),
    ],
)
def test_a_trace_of_a_fabric_and_of_one_program_at_once_is_refused(xoff, arguments, sentence):
    assert sentence in xoff("trace", *arguments)


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        ("{9: {}}", "a class being 0 to 7"),
        ("{'³': {xoff_bytes: 1}}", "a class being 0 to 7"),
        ("{3: ~}", "a class being 0 to 7"),
        ("{3: {xoff_bytes: x}}", "xoff_bytes is a whole number, not 'x'"),
        ("{3: {xoff_bytes: 60000.5}}", "xoff_bytes is a whole number"),
        ("{3: {xoff_bytes: true}}", "xoff_bytes is a whole number"),
        ("{3: {xoff_bytes: 99999999999999}}", "0 to 4294967295"),
        ("{3: {queue_limit_bytes: -1}}", "0 to 4294967295"),
        ("{3: {lossless: 3}}", "lossless is true or false"),
        ("{3: {ecn_pmax: x}}", "a probability, 0 to 1"),
        ("{3: {ecn_pmax: .nan}}", "a probability, 0 to 1"),
        ("&a {3: {xoff_bytes: *a}}", "xoff_bytes is a whole number"),
    ],
)
def test_a_class_policy_that_no_switch_could_follow_is_refused(experiment, classes, sentence):
    assert sentence in experiment(f"classes: {classes}\n")


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        ("{at: 1s, stop_senders: ~}", "would never happen; the run ends after its time_limit, 30ms"),
        ("{at: soon, stop_senders: ~}", "item 1: at: time 'soon'"),
        (
            "{at: 1us, set_class_map: {switch: l1, towards: s1, from: 3, to: 9}}",
            "to is a traffic class, 0 to 7",
        ),
        ("{at: 1us, set_class_map: {switch: l1, towards: s1, from: ~, to: 4}}", "from is a traffic class"),
        ("{at: 1us, set_class_map: {switch: l1, towards: s1, from: 3.7, to: 4}}", "from is a traffic class"),
        ("{at: 1us, set_class_policy: {class: 9}}", "class is a traffic class"),
        ("{at: 1us, set_class_policy: {class: 3, xoff_bytes: x}}", "xoff_bytes is a whole number"),
        ("{at: 1us, set_class_policy: {class: 3, xon_bytes: 99999999}}", "must lie between 0 and xoff_bytes"),
        ("{at: 1us, set_class_policy: {class: 3, switches: 5}}", "switches is a list of names"),
        ("{at: 1us, set_class_policy: {class: 3, switches: l1}}", "switches is a list of names"),
        ("{at: 1us, set_class_policy: {class: 3, switches: [l9]}}", "there is no switch 'l9'"),
        ("{at: 1us, set_load_balancing: {mode: magic}}", "mode is one of ecmp, spray, adaptive"),
        ("{at: 1us, set_load_balancing: {mode: reps}}", "mode is one of ecmp, spray, adaptive"),
        ("{at: 1us, set_rate: {switch: l1, towards: h1, rate: 1e400}}", "at most 1000 Tb/s"),
        ("{at: 1us, set_rate: {switch: l1, towards: h1, rate: 1bps}}", "1 b/s cannot be emulated"),
        ("{at: 1us, pfc_storm: {host: h1, duration: 1e300s}}", "must be at most"),
    ],
)
def test_an_action_that_cannot_be_carried_out_is_refused_before_the_run(experiment, action, sentence):
    assert sentence in experiment(f"actions: [{action}]\n")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pfc: true\npfc: false\n", "pfc is given twice"),
        ("topology: {kind: ring, n: 3, n: 4}\n", "n is given twice"),
        ("classes: []\n", "classes must be a mapping"),
        ("receiver: {h1: 0}\n", "receiver: h1: rate 0 must be at least 1 bit/s"),
        ("routes: {}\n", "routes must be a list"),
        ("actions: " + "[" * 5000 + "]" * 5000 + "\n", "not valid YAML"),
        ("a: &a [x,x]\nb: &b [*a,*a]\n", "unknown key 'a'"),
        ("seed: " + "9" * 5000 + "\n", "not valid YAML"),
        ("seed: 0x" + "f" * 5000 + "\n", "e.yaml:1:7: not valid YAML: a whole number has at most 64 bits"),
        ("time_scale: 0x" + "f" * 5000 + "\n", "at most 64 bits"),
        ("classes: {3: {xoff_bytes: 0x" + "f" * 5000 + "}}\n", "at most 64 bits"),
    ],
)
def test_an_experiment_file_that_says_two_things_or_none_is_refused(experiment, text, sentence):
    assert sentence in experiment(text, small=False)


@pytest.fixture
def run_file(xoff, monkeypatch, capsys, tmp_path):
    """Runs a small virtual experiment with a file of the user's that shows only during the run what is wrong in it."""

    def refused(option: str, name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(text)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["xoff", "run", *SMALL, option, str(path)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        said = capsys.readouterr().err
        assert stopped.value.code == 1 and "Traceback" not in said
        return " ".join(said.split())

    return refused


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("import sys; sys.exit(0)", "ended with SystemExit"),
        ("import os; os._exit(0)", "controller ended with exit code 0"),
        ("raise KeyboardInterrupt", "ended with KeyboardInterrupt"),
        ("async def main(plan, devices, emit): emit(5)", "a record is a dictionary with a kind"),
        (
            "async def main(plan, devices, emit): emit({'kind': 'note', 'text': print})",
            "not JSON serializable",
        ),
        ("async def main(plan, devices, emit): raise RuntimeError('[/bold]')", "RuntimeError: [/bold]"),
    ],
)
def test_a_controller_of_ones_own_ends_no_more_than_its_process(run_file, text, sentence):
    assert sentence in run_file("--controller", "mine.py", text + "\n")


def test_what_a_controller_writes_and_reads_is_not_the_runs(run_file):
    body = """
import os, sys
async def main(plan, devices, emit):
    os.write(1, b'{"event":"idle"}\\n{"event":"record"}\\n')
    os.system("echo garbage")
    sys.__stdout__.write('{"event":"error","message":"none"}\\n')
    raise RuntimeError(f"it read {os.read(0, 1)} and {sys.stdin.read()!r}")
"""
    assert "RuntimeError: it read b'' and ''" in run_file("--controller", "mine.py", body)


@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(1e9)"])
def test_a_controller_that_blocks_ends_the_run_with_a_sentence(run_file, monkeypatch, body):
    from xoff.clocks import control

    monkeypatch.setattr(control, "READY_SECONDS", 1.0)
    said = run_file("--controller", "mine.py", f"async def main(plan, devices, emit):\n    {body}\n")
    assert "neither returned nor emitted a record of kind `ready` after 1 s" in said


def test_a_controller_that_never_rests_ends_the_run_with_a_sentence(run_file, monkeypatch):
    from xoff.clocks import exchange

    monkeypatch.setattr(exchange, "REST_SECONDS", 1.0)
    body = "    emit({'kind': 'ready'})\n    while True: await asyncio.sleep(0)\n"
    said = run_file(
        "--controller", "mine.py", f"import asyncio\nasync def main(plan, devices, emit):\n{body}"
    )
    assert "has not come to rest within 1 s" in said


def test_blocking_calls_are_refused_where_time_is_simulated(run_file):
    body = "    grpc.insecure_channel(devices['l1'])\n"
    said = run_file("--controller", "mine.py", f"import grpc\nasync def main(plan, devices, emit):\n{body}")
    assert "use grpc.aio" in said


P4 = """#include <core.p4>
#include <v1model.p4>
header e_t { bit<48> d; bit<48> s; bit<16> t; }
struct H { e_t e; } struct M { }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t sm) { state start { transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H h, inout M m, inout standard_metadata_t sm) { BODY }
control E(inout H h, inout M m, inout standard_metadata_t sm) { apply { } }
control C(inout H h, inout M m) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h.e); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("apply { }", "its program is not one that this controller can fill"),
        ("register<bit<64>>(4294967295) r; apply { r.write(0, 1); }", "the native switch cannot run"),
    ],
)
def test_a_program_that_compiles_and_cannot_be_used_ends_with_a_sentence(run_file, body, sentence):
    assert sentence in run_file("--program", "mine.p4", P4.replace("BODY", body))


def test_macros_that_multiply_one_another_are_cut_short(run_file):
    bomb = "#define A x x x x x x x x x x\n" + "".join(
        f"#define {chr(66 + i)} {' '.join([chr(65 + i)] * 10)}\n" for i in range(8)
    )
    assert "the macros expand to more than" in run_file("--program", "bomb.p4", bomb + "I\n")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run that went well."""
    from xoff.experiment import Experiment
    from xoff.progress import Display
    from xoff.run import execute

    experiment = Experiment(
        clock="virtual",
        topology="leafspine:leaves=2,spines=1,hosts_per_leaf=1",
        workload="alltoall:bytes=16kB",
    )
    return execute(experiment, tmp_path_factory.mktemp("runs"), Display(quiet=True))["run"]


def test_a_records_line_that_is_no_record_is_counted_and_skipped(finished, tmp_path):
    import shutil
    from pathlib import Path

    from xoff.rundata import read_run

    folder = Path(shutil.copytree(finished, tmp_path / "run"))
    good = read_run(folder)
    with (folder / "records" / "run.jsonl").open("a") as file:
        for line in ("{", '{"t":1}', '{"t":"x","kind":"note","text":"x"}', '{"t":1,"kind":"drop","node":"e1"}',
                     '{"t":1e400,"kind":"note","text":"x"}', '{"t":1,"kind":"queue","node":"e","port":1,"class":[]}',
                     '{"t":1,"kind":"note","text":5}', "[" * 10000):  # fmt: skip
            file.write(line + "\n")
    data = read_run(folder)
    assert [note["text"] for note in data.notes] == [
        *(note["text"] for note in good.notes), "run.jsonl: 8 broken line(s) skipped"]  # fmt: skip
    assert data.messages == good.messages and data.drops == good.drops


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("run.json", "[]", "run.json holds no mapping"),
        ("run.json", '{"wall_seconds": 5}', "no report can be made"),
        ("plan.json", "{}", "damaged"),
        ("plan.json", "[" * 100000, "damaged"),
        ("experiment.yaml", "a: [", "not valid YAML"),
    ],
)
def test_a_damaged_run_folder_is_one_sentence(xoff, finished, tmp_path, file, text, sentence):
    import shutil

    folder = shutil.copytree(finished, tmp_path / "run")
    (tmp_path / "run" / file).write_text(text)
    assert sentence in xoff("report", str(folder))


def test_a_file_is_no_run_folder(xoff):
    assert "not a run folder" in xoff("report", "/etc/hostname")


def test_without_a_place_for_a_cache_a_run_has_one_of_its_own(monkeypatch, tmp_path):
    from compiler import cache

    (tmp_path / "file").write_text("")
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file" / "cache"))
    folder = cache.cache_folder()
    assert folder.is_dir() and cache.cache_folder() == folder


def test_a_full_disk_is_named(xoff, monkeypatch, tmp_path):
    import errno

    from xoff import run as xoff_run

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(xoff_run, "_in_folder", full)
    out = tmp_path / "elsewhere"
    said = xoff("run", *SMALL, "--out", str(out))
    assert str(out) in said and "No space left on device" in said


@pytest.mark.parametrize("step", ["make_context", "_in_folder"])
def test_ctrl_c_outside_a_run_is_one_sentence(xoff, monkeypatch, step):
    import os
    import signal

    from xoff import run as xoff_run
    from xoff.clocks import context

    def interrupted(*arguments: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except Exception:
            raise AssertionError("a library that catches every Exception caught Ctrl-C") from None

    monkeypatch.setattr(context if step == "make_context" else xoff_run, step, interrupted)
    before = signal.getsignal(signal.SIGINT)
    assert xoff("run", *SMALL, "--out", "out").endswith("xoff: stopped by SIGINT.")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_machine_without_the_tools_of_mininet_is_told_which_to_install(monkeypatch, tmp_path):
    import os

    from xoff.clocks.requirements import require_mininet
    from xoff.errors import XoffError

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(
        XoffError, match=r"mnexec .*package mininet.*ip .*package iproute2.*bash .*package bash"
    ):
        require_mininet()
