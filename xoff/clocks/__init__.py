"""The two clocks that drive a fabric: Mininet (wall time) and virtual (simulated nanoseconds)."""
