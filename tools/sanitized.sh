#!/bin/bash
# Runs a command whose engine, NIC and generated programs are built with AddressSanitizer and UndefinedBehaviorSanitizer:
#     tools/sanitized.sh .venv/bin/python -m pytest tests/switch
# The first complaint ends the process that it is about, with a report on stderr.
set -euo pipefail

if ! command -v gcc >/dev/null ||
    ! echo 'int main(void) { return 0; }' | gcc -fsanitize=address,undefined -x c - -o /dev/null 2>/dev/null; then
    echo "sanitized: gcc with its sanitizers is not installed (Debian: gcc)" >&2
    exit 2
fi
export XOFF_SANITIZE=1 XOFF_CC=gcc
# Python's own allocations are no leaks of ours, and every program has the same symbol.
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}
export UBSAN_OPTIONS=print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}
# The sanitizers must be there before anything else; gRPC throws C++ exceptions, which they want to see.
libraries="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so) $(gcc -print-file-name=libstdc++.so.6)"
LD_PRELOAD=$libraries exec "$@"
