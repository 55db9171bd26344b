"""P4_16 for the v1model architecture, compiled to BMv2 JSON and P4Info in pure Python."""

from compiler.driver import Compiled, compile_cached, compile_program
from compiler.errors import CompileError, Diagnostic

__all__ = ["CompileError", "Compiled", "Diagnostic", "compile_cached", "compile_program"]
