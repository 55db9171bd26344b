"""p4c's STF programs through Xoff's compiler, on the native switch or on BMv2."""
