"""Xoff's fabric controller: programs every switch of a plan over P4Runtime and keeps it that way."""
