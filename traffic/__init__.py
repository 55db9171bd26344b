"""RoCEv2 traffic: the wire, a sans-IO NIC, congestion control, collectives and the hosts that run them."""
