"""Fabrics as graphs: shapes, addresses, routes, deadlock check, and their Mininet build."""
