"""What the runner makes of a runptf.sh and of ptf's output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ptf.run import OtherTarget, outcomes, read

SCRIPT = """#!/bin/bash
# simple_switch_grpc is started below
T="`realpath ../testlib`"
p4c --target bmv2 --p4runtime-files build/prog.p4info.txtpb -o build prog.p4
sudo simple_switch_grpc \\
     --log-file ss-log --log-flush \\
     -i 0@veth0 \\
     -i 1@veth2 \\
     --no-p4 -- --cpu-port 510 &
sudo ${EXTRA} `which ptf` --pypath "$P" \\
    -i 0@veth1 -i 1@veth3 \\
    --test-params="grpcaddr='localhost:9559';p4info='build/prog.p4info.txtpb';config='build/prog.json'" \\
    --test-dir ptf
"""
OUTPUT = """one.Passes ... ok
one.Fails ... FAIL
one.Breaks ... some words
ERROR

======================================================================
FAIL: one.Fails
----------------------------------------------------------------------
Traceback (most recent call last):
  File "x.py", line 3, in runTest
AssertionError: Expected packet was not received on device 0, port 1.

======================================================================
ERROR: one.Breaks
----------------------------------------------------------------------
Traceback (most recent call last):
KeyError: 'a'

----------------------------------------------------------------------
Ran 3 tests in 1.0s
"""


def test_a_script_says_how_the_switch_and_the_tests_are_called(tmp_path: Path) -> None:
    (tmp_path / "testlib").mkdir()
    folder = tmp_path / "case"
    folder.mkdir()
    script = folder / "runptf.sh"
    script.write_text(SCRIPT)
    found = read(script)
    assert found.source == folder / "prog.p4"
    assert (found.p4info, found.config) == (folder / "build/prog.p4info.txtpb", folder / "build/prog.json")
    assert found.switch_words == ("-i", "0@veth0", "-i", "1@veth2", "--no-p4", "--", "--cpu-port", "510")
    assert found.switch_ports == {0: "veth0", 1: "veth2"}
    assert found.test_ports == {0: "veth1", 1: "veth3"}
    assert found.tests == folder / "ptf"
    assert (tmp_path / "testlib").resolve() in {path.resolve() for path in found.python_path}


def test_a_script_that_starts_no_switch_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "runptf.sh"
    script.write_text("p4c prog.p4\nptf --test-dir .\n")
    with pytest.raises(OtherTarget, match="does not call simple_switch_grpc"):
        read(script)


def test_outcomes_have_the_last_line_of_their_traceback() -> None:
    assert outcomes(OUTPUT) == {
        "one.Passes": None,
        "one.Fails": "FAIL: AssertionError: Expected packet was not received on device 0, port 1.",
        "one.Breaks": "ERROR: KeyError: 'a'",
    }
