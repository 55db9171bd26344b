"""Programs switches with the p4lang tutorials' own controller library, found beside this project.

    tutorial_session.py UTILS_FOLDER DUMP_FILE ADDRESS=DEVICE_ID=RUNTIME_JSON…

Run with the Python that has p4runtime 1.4.1 (which lacks one message of the library's, so it is described here).
"""

import sys
import types
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def describe_device_config():
    """p4.tmp.P4DeviceConfig: { bool reassign = 1; bytes device_data = 3; }"""
    file = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp", syntax="proto3")
    message = file.message_type.add(name="P4DeviceConfig")
    message.field.add(name="reassign", number=1, type=8, label=1)
    message.field.add(name="device_data", number=3, type=12, label=1)
    pool = descriptor_pool.Default()
    pool.Add(file)
    made = message_factory.MessageFactory(pool).GetPrototype(
        pool.FindMessageTypeByName("p4.tmp.P4DeviceConfig")
    )
    package, module = types.ModuleType("p4.tmp"), types.ModuleType("p4.tmp.p4config_pb2")
    module.P4DeviceConfig = made
    package.p4config_pb2 = module
    sys.modules.update({"p4.tmp": package, "p4.tmp.p4config_pb2": module})


def main(utils, dump, *switches):
    describe_device_config()
    sys.path.insert(0, utils)
    from p4runtime_lib import simple_controller

    for switch in switches:
        address, device_id, path = switch.split("=")
        with Path(path).open() as file:
            simple_controller.program_switch(
                addr=address,
                device_id=int(device_id),
                sw_conf_file=file,
                workdir=str(Path(path).parent),
                proto_dump_fpath=dump,
                runtime_json=path,
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
