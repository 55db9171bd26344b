"""Experiment files: every option is a key, every mistake is one sentence."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.intent import SwitchIntent
from topologies.plan import FabricPlan
from traffic.nic.config import RepsConfig
from xoff.errors import XoffError
from xoff.experiment import Experiment, from_mapping, load
from xoff.prepare import build_plan


def test_an_experiment_survives_the_round_trip_through_its_file(tmp_path):
    experiment = Experiment(
        name="x", topology={"kind": "fattree", "k": 6}, ecn=False, telemetry="off", seed=9
    )
    path = tmp_path / "experiment.yaml"
    path.write_text(experiment.to_yaml())
    assert load(path) == experiment


def test_every_option_is_a_key_with_a_help_text():
    assert all(f.metadata["help"] for f in fields(Experiment))


def test_an_unknown_key_is_named_with_the_nearest_known_one():
    with pytest.raises(XoffError, match="unknown key 'topologi'; did you mean topology"):
        from_mapping({"topologi": "fattree"}, "e.yaml")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"load_balancing": "magic"}, "ecmp, spray, adaptive"),
        ({"mtu": 1500}, "256, 512, 1024, 2048 or 4096"),
        ({"ecn": "maybe"}, "ecn must be true or false"),
        ({"time_scale": 0}, "above zero"),
        ({"rate": "fast"}, "rate .fast. is not a quantity"),
        ({"seed": "one"}, "seed must be of type int"),
        ({"seed": True}, "seed must be of type int"),
        (["not", "a", "mapping"], "a mapping of options"),
        ({"sample": "-1ms"}, "must not be negative"),
    ],
)
def test_a_wrong_value_is_one_sentence_that_names_the_file(data, message):
    with pytest.raises(XoffError, match=message) as error:
        from_mapping(data, "e.yaml")
    assert str(error.value).startswith("e.yaml")


@pytest.mark.parametrize("text", ["a: [", "\ta: 1", "{", "!!python/object/apply:os.system ['true']"])
def test_broken_yaml_is_reported_with_its_place(tmp_path, text):
    path = tmp_path / "e.yaml"
    path.write_text(text)
    with pytest.raises(XoffError, match="not valid YAML"):
        load(path)


def test_a_missing_or_binary_file_is_one_sentence(tmp_path):
    with pytest.raises(XoffError, match="cannot read"):
        load(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(XoffError, match="not a text file"):
        load(tmp_path / "b.yaml")


@given(st.text(max_size=200))
def test_any_text_gives_an_experiment_or_a_sentence(text):
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "e.yaml")
        path.write_text(text, encoding="utf-8", errors="replace")
        try:
            assert isinstance(load(path), Experiment)
        except XoffError as error:
            assert str(error)


def test_a_bare_off_means_off_and_not_false():
    import yaml

    assert from_mapping(yaml.safe_load("telemetry: off"), "e").telemetry == "off"


def test_reps_takes_its_parameters_by_name():
    balancing = Experiment(load_balancing="reps:buffer=4,entropies=256,explore=20,freezing=1ms").balancing
    assert balancing.mode == "reps"
    assert balancing.reps == RepsConfig(buffer=4, entropies=256, explore_packets=20, freezing_ns=1_000_000)
    assert Experiment(load_balancing="reps").balancing.reps == RepsConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rep", "load_balancing: 'rep' is not one of ecmp, spray, adaptive, reps .did you mean 'reps'"),
        ("spray:buffer=4", "load_balancing: spray has no parameters"),
        ("reps:bufer=4", "load_balancing: reps has no parameter 'bufer' .did you mean 'buffer'"),
        ("reps:buffer", "load_balancing: reps: buffer='' is not a whole number"),
        ("reps:entropies=-1", "load_balancing: reps: entropies=-1 is not accepted"),
        ("reps:freezing=long", "load_balancing: .*long"),
    ],
)
def test_a_wrong_load_balancing_is_one_sentence(text, message):
    with pytest.raises(XoffError, match=message):
        Experiment(load_balancing=text)


@pytest.mark.parametrize(
    "text", ["reps:buffer=0", "reps:buffer=65", "reps:entropies=16385", "reps:freezing=2000s"]
)
def test_values_of_reps_out_of_range_are_refused(text):
    with pytest.raises(XoffError, match=r"load_balancing: reps: \w+=\d+ is not accepted; it is \d+ to \d+"):
        Experiment(load_balancing=text)


def test_where_the_hosts_balance_the_switches_hash():
    plan = build_plan(Experiment(load_balancing="reps"))
    assert (plan.load_balancing, plan.switch_balancing) == ("reps", "ecmp")
    assert FabricPlan.from_json(plan.to_json()) == plan
    assert SwitchIntent.of_plan(plan, plan.switches[0], 10**9).balance == "ecmp"
