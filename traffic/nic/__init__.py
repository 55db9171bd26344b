"""A RoCEv2 NIC as a state machine: frames and times in, frames and deadlines out."""
