"""The native switch: BMv2 JSON compiled to C, a traffic manager, and what attaches it to the world."""
