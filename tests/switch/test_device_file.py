"""devices.json: what is written is read back, and a wrong file gets one sentence."""

import json
from pathlib import Path

import pytest

from switch.device import DeviceSpec, PortSpec, QueueSpec
from switch.device_file import DeviceFileError, device_to_json, read_devices, write_devices


def device(name="s1", device_id=1, **changes):
    values = {
        "name": name,
        "device_id": device_id,
        "ports": (PortSpec(1, "s1-eth1", 10**7, 1000), PortSpec(2, None, 0)),
        "program_json": Path("out/fabric.json"),
        "p4info": Path("out/fabric.p4info.txtpb"),
        "grpc_address": "127.0.0.1:0",
        "timer_hz": 2.5,
        "queue": QueueSpec(1000, 10),
    }
    return DeviceSpec(**{**values, **changes})


def test_devices_are_read_as_they_were_written(tmp_path):
    devices = (device(), device("s2", 2, seed=7, bmv2_compat=True))
    write_devices(tmp_path / "devices.json", devices)
    assert read_devices(tmp_path / "devices.json") == devices


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": 5}, "name must be str"),
        ({"colour": 1}, "unknown field 'colour'"),
        ({"ports": None}, "ports must be a list"),
        ({"ports": [{"number": 1}]}, "field 'interface' is missing"),
        ({"ports": [{"number": 511, "interface": None, "rate_bps": 0}]}, "511 is not in 0..510"),
        ({"ports": [{"number": 1, "interface": None, "rate_bps": -1}]}, "negative rate"),
        ({"ports": [{"number": 1, "interface": None, "rate_bps": 0}] * 2}, "port number 1 is used twice"),
        ({"priority_queues": 9}, "priority_queues must be 1..8"),
        ({"device_id": 0}, "device_id must be at least 1"),
        ({"timer_hz": "often"}, "timer_hz must be float"),
        ({"cpu_port": True}, "cpu_port must be int"),
        ({"bmv2_compat": 1}, "bmv2_compat must be bool"),
    ],
)
def test_a_wrong_field_is_named(tmp_path, change, says):
    data = device_to_json(device()) | change
    (tmp_path / "devices.json").write_text(json.dumps([data]))
    with pytest.raises(DeviceFileError, match=says):
        read_devices(tmp_path / "devices.json")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "cannot be read: No such file"),
        ("[", "is not JSON"),
        ("{}", "must be a JSON list"),
        ("[]", "at least one device"),
        ("[3]", "device 0 must be a JSON object"),
        ("[{}]", "field 'name' is missing"),
    ],
)
def test_a_wrong_file_gets_one_sentence(tmp_path, text, says):
    path = tmp_path / "devices.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DeviceFileError, match=says) as refused:
        read_devices(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_two_switches_of_one_name_are_refused(tmp_path):
    write_devices(tmp_path / "devices.json", [device(), device(device_id=2)])
    with pytest.raises(DeviceFileError, match="name 's1' is used twice"):
        read_devices(tmp_path / "devices.json")
