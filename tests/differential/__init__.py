"""The native switch beside real BMv2: the same programs, entries and packets, every difference named."""
