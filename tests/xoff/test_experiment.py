"""Experiment files: every option is a key, every mistake is one sentence."""

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xoff.errors import XoffError
from xoff.experiment import Experiment, from_mapping, load


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
