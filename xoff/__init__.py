"""Xoff: a laboratory for lossless AI fabrics."""
