"""The NIC in C, and its binding. `traffic.nic.nic.Nic` is the reference that it equals frame for frame."""
