"""RoCEv2, PFC and INT on the wire: scapy layers, ICRC, frame templates and a parser of received frames."""
