"""P4 switches: one face, two targets (`native`: Xoff's own engine, `bmv2`: simple_switch_grpc)."""
