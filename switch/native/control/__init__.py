"""The switch's own gRPC service beside P4Runtime: ports, queues, buffer, statistics, and BMv2's CLI commands."""
