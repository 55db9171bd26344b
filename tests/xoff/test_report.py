"""Summaries and pages are made from records alone, and say what the records say."""

import json
import math
import re

import pytest

from tests.xoff.synthetic import MS, RATE, write_run
from xoff.errors import XoffError
from xoff.metrics import summarise
from xoff.report.hpcc_files import hpcc_ip, standalone_fct_ns, write_hpcc_files
from xoff.report.page import write_page
from xoff.report.table import remarks, rows
from xoff.rundata import PauseInterval, pause_intervals, read_run
from xoff.waitfor import cycle_at, describe


@pytest.fixture
def run(tmp_path):
    return read_run(write_run(tmp_path / "run"))


@pytest.fixture
def frozen(tmp_path):
    return read_run(write_run(tmp_path / "frozen", deadlocked=True))


def pause(t, until, port=1):
    return {"t": t, "kind": "pause", "node": "s", "port": port, "class": 3, "until": until}


@pytest.mark.parametrize(
    ("events", "stretches"),
    [
        ([pause(10, 50), pause(30, 0)], [(10, 30)]),
        ([pause(10, 50)], [(10, 50)]),
        ([pause(10, 50), pause(40, 90), pause(95, 0)], [(10, 90)]),
        ([pause(10, 50), pause(60, 70)], [(10, 50), (60, 70)]),
        ([pause(10, 500)], [(10, 100)]),
        ([pause(10, 0)], []),
        ([pause(10, 50), pause(50, 60)], [(10, 50), (50, 60)]),
    ],
    ids=["resumed", "expired", "refreshed", "twice", "cut by the end", "xon alone", "paused again at expiry"],
)
def test_a_pause_lasts_until_it_is_resumed_expires_or_the_run_ends(events, stretches):
    assert pause_intervals(events, 100) == [PauseInterval("s", 1, 3, a, b) for a, b in stretches]


def test_bandwidths_follow_nccl_tests_in_fabric_units(run):
    collective = summarise(run)["collective"]
    assert collective["completion_seconds"] == pytest.approx(100e-6)
    assert collective["algbw_GBps"] == pytest.approx(10.0)
    assert collective["busbw_GBps"] == pytest.approx(10.0 * 4 / 3)
    assert collective["share_of_ideal"] == pytest.approx(0.8)


def test_cumulative_records_count_once(run):
    summary = summarise(run)
    assert summary["ecn_marked_packets"] == 9
    assert summary["drops"] == {"queue_limit": 5}
    assert (summary["drops_total"], summary["drops_lossless"]) == (5, 0)
    assert (summary["cnps_sent"], summary["cnps_received"]) == (1, 1)
    assert (summary["retransmissions"], summary["retransmitted_packets"]) == (1, 4)
    assert dict(rows(summary))["retransmissions"] == "1 time, 4 packets"


def test_pause_time_is_in_fabric_seconds(run):
    assert summarise(run)["paused_seconds"] == pytest.approx(3 * 10e-3 / 1000)


def test_path_spread_is_the_busiest_port_over_the_mean(run):
    assert summarise(run)["path_spread"] == pytest.approx(3 / 2)


def test_the_summary_is_plain_json(run):
    assert json.loads(json.dumps(summarise(run)))["finished"] is True


def test_a_ring_of_paused_queues_is_found_and_told_in_words(frozen):
    cycle = cycle_at(frozen, frozen.end)
    assert cycle == [("s0", 2, 3), ("s1", 2, 3), ("s2", 2, 3)]
    assert describe(frozen, cycle) == (
        "s0->s1 (class 3) waits for s1->s2 (class 3) waits for s2->s0 (class 3) waits for s0->s1 (class 3)"
    )


def test_pauses_that_ended_are_no_deadlock(run):
    assert cycle_at(run, run.end) == []
    assert cycle_at(run, 55 * MS) != []


def test_the_page_stands_alone_and_names_the_deadlock(frozen, run):
    page = write_page(frozen, summarise(frozen)).read_text()
    assert "PFC deadlock" in page and page.count("<svg") == 5
    assert not re.search(r'(src|href)="(?!#|data:)', page.replace("xlink:href", "href"))
    assert "PFC deadlock" not in write_page(run, summarise(run)).read_text()


def test_a_page_is_made_of_a_run_that_recorded_nothing(tmp_path):
    folder = write_run(tmp_path / "run")
    for path in (folder / "records").iterdir():
        path.write_text("")
    data = read_run(folder)
    assert "<svg" in write_page(data, summarise(data)).read_text()


def test_lost_lossless_frames_are_put_down_to_a_machine_that_is_too_slow(run):
    summary = summarise(run)
    assert remarks(summary) == []
    late = summary | {"drops": {"headroom": 3}}
    assert "--time-scale above 1000" in remarks(late)[0]
    assert remarks(late)[0] in write_page(run, late).read_text()
    assert remarks(late | {"clock": "virtual"}) == []


def test_broken_record_lines_are_counted_in_a_note(tmp_path):
    folder = write_run(tmp_path / "run")
    with (folder / "records" / "switch.jsonl").open("a") as file:
        file.write('{"t": 1, "ki\n[1]\n')
    assert [n["text"] for n in read_run(folder).notes] == ["switch.jsonl: 2 broken line(s) skipped"]


@pytest.mark.parametrize("missing", ["plan.json", "run.json", "experiment.yaml"])
def test_a_folder_that_is_no_run_is_one_sentence(tmp_path, missing):
    folder = write_run(tmp_path / "run")
    (folder / missing).unlink()
    with pytest.raises(XoffError):
        read_run(folder)


def test_a_damaged_plan_is_one_sentence(tmp_path):
    folder = write_run(tmp_path / "run")
    (folder / "plan.json").write_text('{"name": 3}')
    with pytest.raises(XoffError, match="damaged"):
        read_run(folder)


def test_hpcc_columns(run):
    fct, pfc, qlen = write_hpcc_files(run)
    first = fct.read_text().splitlines()[0].split()
    assert first[:2] == [f"{hpcc_ip(2):08x}", f"{hpcc_ip(1):08x}"]
    assert first[2:7] == ["50002", "4791", "1000000", "0", "80000"]
    assert pfc.read_text().splitlines()[0].split() == ["50000", "3", "1", "2", "1"]
    assert qlen.read_text().splitlines()[0] == "time: 100000"
    assert qlen.read_text().splitlines()[1].split()[:3] == ["3", "2", "1"]


def test_hpcc_node_addresses_are_11_x_y_1():
    assert hpcc_ip(0) == 0x0B000001 and hpcc_ip(257) == 0x0B010101


def test_standalone_time_is_base_rtt_plus_serialisation(run):
    # h0 -> s0 -> s1 -> h1: 3 links of 1 us; a full packet is 1024 + 58 headers + 24 on the wire.
    packet_ns = (1024 + 58 + 24) * 8 * 1e9 / RATE
    packets = math.ceil(1_000_000 / 1024)
    total = 1_000_000 + packets * (58 + 24)
    expected = 3 * (2 * 1000 + packet_ns) + total * 8e9 / RATE
    assert standalone_fct_ns(run.plan, "h0", "h1", 1_000_000) == round(expected)
