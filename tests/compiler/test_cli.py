"""`python -m compiler`: what it writes, says and returns."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from compiler import compile_cached, compile_program
from compiler.__main__ import main
from compiler.dump import PASSES

ROOT = Path(__file__).parents[2]
FABRIC = ROOT / "p4src" / "fabric.p4"
GOOD = """
#include <core.p4>
#include <v1model.p4>
#ifdef EXTRA
const bit<8> EXTRA_VALUE = EXTRA;
#endif
header h_t { bit<8> x; }
struct headers_t { h_t h; }
struct meta_t { }
parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    action go(bit<9> port) { s.egress_spec = port; }
    table t { key = { h.h.x: exact; } actions = { go; NoAction; } const entries = { 1: go(2); } }
    apply { t.apply(); }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.p4"
    path.write_text(GOOD)
    return path


def test_a_folder_gets_json_p4info_and_entries(good: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main([str(good), "-o", f"{out}/"]) == 0
    assert json.loads((out / "good.json").read_text())["__meta__"]["version"] == [2, 23]
    assert 'name: "I.t"' in (out / "good.p4info.txtpb").read_text()
    assert "updates" in (out / "good.entries.txtpb").read_text()


def test_p4c_flags_name_each_file(good: Path, tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("a.json", "a.txtpb", "b.json", "c.bin", "e.txtpb")]
    arguments = [str(good), "--std", "p4-16", "--target", "bmv2", "--arch", "v1model", "-o", names[0]]
    arguments += ["--p4runtime-files", ",".join(names[1:4]), "--p4runtime-entries-files", names[4]]
    assert main(arguments) == 0
    tables = json.loads(Path(names[2]).read_text())["tables"]
    assert tables[0]["preamble"]["name"] == "I.t"
    assert Path(names[1]).read_text().count("I.t") == Path(names[3]).read_bytes().count(b"I.t")
    assert "updates" in Path(names[4]).read_text()


def test_an_error_has_its_place_and_gives_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.p4"
    bad.write_text(GOOD.replace("s.egress_spec = port;", "s.egress_spec = nowhere;"))
    assert main([str(bad), "-o", str(tmp_path / "x.json")]) == 1
    said = capsys.readouterr().err
    line = GOOD.split("nowhere")[0].count("\n")
    assert said.startswith(f"{bad}:") and "error:" in said and "nowhere" in said and "^" in said
    assert line >= 0 and not (tmp_path / "x.json").exists()


def test_json_errors_are_a_list_with_file_line_and_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.p4"
    bad.write_text(GOOD.replace("s.egress_spec = port;", "s.egress_spec = nowhere;"))
    assert main([str(bad), "--json-errors"]) == 1
    items = json.loads(capsys.readouterr().err)
    wanted = next(n for n, text in enumerate(GOOD.split("\n"), 1) if "action go" in text)
    assert [(i["file"], i["line"], i["severity"]) for i in items] == [(str(bad), wanted, "error")]
    assert items[0]["column"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["/nonexistent/x.p4"], 1, "x.p4"),
        (["--target", "tofino", "x.p4"], 2, "tofino"),
        (["--std", "p4-14", "x.p4"], 2, "P4_14"),
        (["--arch", "psa", "x.p4"], 2, "psa"),
    ],
)
def test_a_wrong_command_line_gets_one_sentence(
    arguments: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == code
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err


def test_werror_stops_on_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "warned.p4"
    path.write_text(GOOD.replace("transition accept;", "transition reject;"))
    out = tmp_path / "out.json"
    assert main([str(path), "-o", str(out)]) == 0
    assert "warning" in capsys.readouterr().err
    out.unlink()
    assert main([str(path), "-o", str(out), "--Werror"]) == 1
    assert not out.exists()


def test_macros_includes_and_preprocessed_text(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(good), "-E", "-D", "EXTRA=17"]) == 0
    assert "const bit<8> EXTRA_VALUE = 17;" in capsys.readouterr().out
    assert main([str(good), "-E", "-D", "EXTRA=17", "-U", "EXTRA"]) == 0
    assert "EXTRA_VALUE" not in capsys.readouterr().out


def essence(document: dict[str, object]) -> object:
    """BMv2 JSON without its notes on the source."""

    def strip(value: object) -> object:
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k not in ("source_info", "program")}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return strip(document)


def test_a_printed_program_compiles_to_the_same(tmp_path: Path) -> None:
    printed = tmp_path / "fabric.p4"
    assert main([str(FABRIC), "--pp", str(printed)]) == 0
    assert _shape(compile_program(printed).json) == _shape(compile_program(FABRIC).json)


def _shape(document: dict[str, object]) -> object:
    kept = ("header_types", "parsers", "deparsers", "register_arrays", "calculations")
    return essence({k: document[k] for k in kept})


@pytest.mark.parametrize("number", range(len(PASSES)), ids=PASSES)
def test_what_a_pass_makes_can_be_printed(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FABRIC), "--dump", PASSES[number], "--Wdisable"]) == 0
    text = capsys.readouterr().out
    wanted = {
        "preprocess": "standard_metadata_t standard_metadata",
        "parse": "#include <v1model.p4>",
        "check": "meta.wire_length /* bit<32> */ = (((bit<32>)hdr.ipv4.total_length /* bit<16> */) + ",
        "p4info": 'name: "FabricIngress.timer_lap.timer"',
        "lower": "Extract(ethernet",
        "graph": "graph ingress: starts at ",
        "json": '"header_types": [',
    }
    assert wanted[PASSES[number]] in text


def test_a_checked_program_is_printed_as_p4_that_means_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(FABRIC), "--dump", "check", "--Wdisable"]) == 0
    printed = tmp_path / "fabric.p4"
    printed.write_text(capsys.readouterr().out)
    assert _shape(compile_program(printed).json) == _shape(compile_program(FABRIC).json)


def test_the_second_compile_comes_from_the_cache(good: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = compile_cached(good, cache)
    begin = time.process_time()
    second = compile_cached(good, cache)
    assert (second.json, second.p4info, second.entries) == (first.json, first.p4info, first.entries)
    assert time.process_time() - begin < 0.25
    assert len(list(cache.glob("*.json"))) == 1
    good.write_text(GOOD.replace("go(2)", "go(3)"))
    assert compile_cached(good, cache).json != first.json
    next(cache.glob("*.json")).write_text("{}")
    assert compile_cached(good, cache).p4info == first.p4info


def test_the_module_runs_alone(good: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "compiler", str(good), "-o", str(tmp_path / "alone.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "alone.json").exists()


def test_a_full_disk_names_the_cache_and_leaves_nothing_there(good, tmp_path, monkeypatch):
    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("compiler.driver.json.dump", full)
    with pytest.raises(OSError) as told:
        compile_cached(good, tmp_path / "cache")
    assert told.value.filename == str(tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
