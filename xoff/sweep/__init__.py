"""Sweeps: one experiment over a grid of settings, on all cores or a Dask cluster."""
