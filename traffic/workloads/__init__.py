"""Workloads from files that users already have."""
