"""The frame that scapy builds once per NIC; everything the NIC sends later is patched from it.

scapy is imported on first use only: the hosts' workers get the bytes and never load it.
"""

from __future__ import annotations

ROCE_PORT = 4791
PROTOTYPE_DSCP = 24
ECT0 = 0b10
TTL = 64


def data_frame(mac: str, gateway_mac: str, ip: str) -> bytes:
    """Ethernet / IPv4 or IPv6 / UDP / BTH of an RDMA WRITE ONLY without payload, to be patched per queue pair."""
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether

    if ":" in ip:
        network = IPv6(src=ip, dst=ip, tc=PROTOTYPE_DSCP << 2 | ECT0, hlim=TTL)
    else:
        network = IP(src=ip, dst=ip, tos=PROTOTYPE_DSCP << 2 | ECT0, ttl=TTL, flags="DF", id=0)
    udp = UDP(sport=0xC000, dport=ROCE_PORT, chksum=0)
    frame = Ether(src=mac, dst=gateway_mac) / network / udp / BTH(opcode="RC_RDMA_WRITE_ONLY")
    return bytes(frame)
