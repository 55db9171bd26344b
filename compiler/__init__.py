"""P4_16 for the v1model architecture, compiled to BMv2 JSON and P4Info in pure Python."""
