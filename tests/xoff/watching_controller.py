"""Xoff's own controller run as a user's: it answers the first telemetry report of each sink."""

import asyncio
from dataclasses import replace
from pathlib import Path

from controller.app import FabricController, ProgramFiles

PROGRAM = Path(__file__).parent / "program"


async def main(plan, devices, emit):
    loop = asyncio.get_running_loop()
    reports = asyncio.Queue()

    def note(text):
        emit({"kind": "note", "text": f"{round(loop.time() * 1e9)} {text}"})

    def told(record):
        if record["kind"] == "int":
            reports.put_nowait(record)
        else:
            emit(record)

    program = ProgramFiles(PROGRAM / "fabric.json", PROGRAM / "fabric.p4info.txtpb")
    controller = FabricController(plan, devices, program, told, timestamp_hz=10**9)
    await controller.start()
    emit({"kind": "ready"})
    answered = set()
    while True:
        record = await reports.get()
        if record["node"] not in answered:
            answered.add(record["node"])
            note(f"{record['node']} reported {record['hops'][-1]['out_ts']}")
            policy = replace(plan.classes[3], ecn_kmin_bytes=1, ecn_kmax_bytes=1, ecn_pmax=1.0)
            await controller.set_class_policy(3, policy, [record["node"]])
            note(f"{record['node']} marks")
