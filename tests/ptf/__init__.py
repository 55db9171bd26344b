"""PTF tests that others wrote for simple_switch_grpc, run against the native switch."""
