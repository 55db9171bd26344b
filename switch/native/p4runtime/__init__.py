"""The P4Runtime server of the native switch: one gRPC port per device, one event loop for all of them."""
