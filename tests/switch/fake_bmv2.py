#!/usr/bin/env python3
"""Stands in for simple_switch_grpc: listens on its two ports and writes down what it is told.

Environment: FAKE_BMV2_LOG = file for the arguments and Thrift calls (JSON lines); FAKE_BMV2_FAIL = message to
print and exit with instead.
"""

import json
import os
import socket
import struct
import sys
from pathlib import Path

SIZES = {8: 4, 10: 8}


def log(entry):
    with Path(os.environ["FAKE_BMV2_LOG"]).open("a") as file:
        file.write(json.dumps(entry) + "\n")


def serve_call(stream):
    (version, length) = struct.unpack(">II", stream.read(8))
    assert version == 0x80010001
    name = stream.read(length).decode()
    sequence = stream.read(4)
    arguments = []
    while (kind := stream.read(1)[0]) != 0:
        stream.read(2)
        arguments.append(int.from_bytes(stream.read(SIZES[kind]), "big", signed=True))
    log({"call": name, "arguments": arguments})
    method = name.split(":")[1].encode()
    reply = struct.pack(">II", 0x80010002, len(method)) + method + sequence
    stream.write(reply + struct.pack(">BHi", 8, 0, 0) + b"\0")
    stream.flush()


def main():
    if message := os.environ.get("FAKE_BMV2_FAIL"):
        print(message)
        return 3
    log({"arguments": sys.argv[1:]})
    host, port = sys.argv[sys.argv.index("--grpc-server-addr") + 1].split(":")
    thrift_port = int(sys.argv[sys.argv.index("--thrift-port") + 1])
    _grpc = socket.create_server((host, int(port)))
    thrift = socket.create_server(("127.0.0.1", thrift_port))
    while True:
        connection, _ = thrift.accept()
        with connection, connection.makefile("rwb") as stream:
            try:
                while True:
                    serve_call(stream)
            except (struct.error, IndexError):
                pass  # the client has gone


if __name__ == "__main__":
    sys.exit(main())
