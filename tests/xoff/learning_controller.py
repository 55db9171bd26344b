"""A controller that programs a switch as it learns from it, written with finsy as for any switch."""

import asyncio
import ipaddress
from pathlib import Path

import finsy as fy

PROGRAM = Path(__file__).parent / "program"
P4INFO, JSON = PROGRAM / "learning.p4info.txtpb", PROGRAM / "learning.json"


async def main(plan, devices, emit):
    loop = asyncio.get_running_loop()
    known = {int(ipaddress.IPv4Address(host.ipv4)): host for host in plan.hosts}

    def note(text):
        emit({"kind": "note", "text": f"{round(loop.time() * 1e9)} {text}"})

    async def follow(name, address):
        options = fy.SwitchOptions(p4info=P4INFO, p4blob=JSON, device_id=plan.switch(name).device_id)
        async with fy.Switch(name, address, options) as switch:
            await switch.write([+fy.P4DigestEntry("wanted_t", max_list_size=1)])
            emit({"kind": "ready"})
            asked = set()
            async for digest in switch.read_digests("wanted_t"):
                for wanted in digest:
                    host = known[wanted["address"]]
                    if host.name in asked:
                        continue
                    asked.add(host.name)
                    note(f"asked for {host.name}")
                    entry = fy.P4TableEntry(
                        "hosts",
                        match=fy.P4TableMatch(dst=host.ipv4),
                        action=fy.P4TableAction("forward", port=host.switch_port, mac=host.mac),
                    )
                    await switch.insert([entry])
                    note(f"told of {host.name}")
                    await asyncio.sleep(7e-6)
                    note(f"rested after {host.name}")

    await asyncio.gather(*(follow(name, address) for name, address in devices.items()))
