"""Lowering: from the typed tree of a v1model program to the low-level program (`compiler.ir`)."""

from __future__ import annotations

import re
from typing import Any

from compiler import ir, tree, types
from compiler.errors import CompileError, Diagnostic
from compiler.lower_blocks import declare_locals, instantiate, make
from compiler.lower_checks import checksums
from compiler.lower_context import Lowering, NeedsOwnStorage, Scope, TooManyProblems
from compiler.lower_deparser import lower_deparser
from compiler.lower_parser import parser_states
from compiler.lower_stmt import statements
from compiler.parser_states import StateFlattener
from compiler.storage import NoStorage, Storage
from compiler.values import BlockObject, ExternObject, Packet, Record, Value

ARCHITECTURE_FILES = ("core.p4", "v1model.p4")


def lower_program(program: tree.TypedProgram) -> tuple[ir.Unit, Storage, list[Diagnostic]]:
    """The low-level program, its storage (new cells can still be made), and warnings. Raises CompileError."""
    own: frozenset[str] = frozenset()
    while True:
        lowering = _Program(program, own)
        problems = lowering.low.problems
        try:
            found = lowering.lower()
            if problems:
                raise CompileError(problems)
            return found
        except TooManyProblems:
            raise CompileError(problems) from None
        except CompileError as last:
            problems += [d for d in last.diagnostics if d not in problems]
            raise CompileError(problems) from None
        except NeedsOwnStorage as clash:
            if clash.name in own:
                raise AssertionError(f"{clash.name} has storage of its own already") from None
            own |= {clash.name}
        except NoStorage as problem:
            pos = problem.pos if problem.pos >= 0 else program.main.pos
            raise CompileError.at(program.source, pos, str(problem)) from None


class _Program:
    def __init__(self, program: tree.TypedProgram, own: frozenset[str]) -> None:
        self.program = program
        self.unit = ir.Unit()
        self.storage = Storage(self.unit)
        errors = {name: number for number, name in enumerate(program.errors)}
        self.low = Lowering(program, self.unit, self.storage, [], errors, own_storage=own)

    def lower(self) -> tuple[ir.Unit, Storage, list[Diagnostic]]:
        self.unit.errors = [(name, number) for name, number in self.low.errors.items()]
        self._enums()
        self._globals()
        blocks = self._package()
        parser = blocks[0].decl
        assert isinstance(parser, tree.ParserDecl)
        if len(parser.params) != 4:
            raise self.low.error(parser.pos, "the parser of a V1Switch has four parameters")
        headers, metadata, standard = self._parameters(parser, blocks[0])
        values: dict[str, list[Value]] = {
            "parser": [Packet(False), headers, metadata, standard],
            "verify": [headers, metadata],
            "ingress": [headers, metadata, standard],
            "egress": [headers, metadata, standard],
            "compute": [headers, metadata],
            "deparser": [Packet(True), headers],
        }
        for (name, arguments), block in zip(values.items(), blocks, strict=True):
            self._block(name, block, arguments)
        return self.unit, self.storage, self.low.warnings

    # ------------------------------------------------------------------ the architecture

    def _enums(self) -> None:
        locate = self.program.source.locate
        for decl in self.program.tree.decls:
            if isinstance(decl, tree.EnumDecl) and decl.ref is None:
                file = locate(decl.pos).file
                if not file.endswith(ARCHITECTURE_FILES):
                    entries = [(member.name, number) for number, member in enumerate(decl.members)]
                    self.unit.enums.append((decl.name, entries))

    def _scope(self, block: str) -> Scope:
        return Scope(self.low, {}, [], block, "")

    def _globals(self) -> None:
        scope = self._scope("global")
        for decl in self.program.tree.decls:
            if isinstance(decl, tree.InstanceDecl) and decl is not self.program.main:
                made = instantiate(scope, decl)
                if isinstance(made, ExternObject | BlockObject):
                    self.low.globals[decl] = made

    def _package(self) -> list[BlockObject]:
        main = self.program.main
        type_ = main.call.type.of if isinstance(main.call.type, types.TypeType) else main.call.type
        if not isinstance(type_, types.PackageType) or len(main.call.bound) != 6:
            raise self.low.error(main.pos, "the main package must be v1model's V1Switch")
        scope = self._scope("global")
        blocks: list[BlockObject] = []
        for bound in main.call.bound:
            expr = bound.expr
            if isinstance(expr, tree.Call) and expr.kind == "constructor":
                made: Any = make(scope, expr, "", None)
            elif isinstance(expr, tree.Name):
                made = self.low.globals.get(expr.decl)
            else:
                made = None
            if not isinstance(made, BlockObject):
                raise self.low.error(
                    main.pos, f"argument {bound.param.name} of the package must be a parser or control"
                )
            made.name = _block_name(made)
            blocks.append(made)
        return blocks

    def _parameters(self, parser: tree.ParserDecl, block: BlockObject) -> tuple[Value, Value, Value]:
        found = [types.underlying(p.type) for p in block.type.params]
        headers_type, metadata_type, standard_type = found[1:4]
        if not isinstance(headers_type, types.StructType):
            raise self.low.error(parser.params[1].pos, "the headers parameter must be a struct of headers")
        if not isinstance(standard_type, types.StructType):
            raise self.low.error(parser.params[3].pos, "the fourth parameter must be standard_metadata_t")
        aliases: list[tuple[str, str]] = []
        for field in standard_type.fields:
            for annotation in field.node.annotations:
                text = annotation.string if annotation.name == "alias" else None
                if text is not None:
                    aliases.append((text, field.name))
        standard = self.storage.standard_metadata(standard_type, aliases)
        headers = self.storage.headers_struct(headers_type)
        self.low.packet_headers = {instance.name for instance in self.unit.instances if not instance.metadata}
        metadata = self.storage.new("userMetadata", metadata_type)
        if isinstance(metadata, Record) and isinstance(metadata_type, types.StructType):
            self._field_lists(metadata_type, metadata)
        return headers, metadata, standard

    def _field_lists(self, type_: types.StructType, metadata: Record) -> None:
        lists: dict[int, list[ir.Field]] = {}
        for field in type_.fields:
            self._field_list(field, metadata.fields[field.name], lists)
        for number in sorted(lists):
            index = len(self.unit.field_lists) + 1
            self.low.field_lists[number] = index
            self.unit.field_lists.append((index, f"field_list{number}", lists[number]))

    def _field_list(self, field: types.Field, value: Value, lists: dict[int, list[ir.Field]]) -> None:
        for annotation in field.node.annotations:
            if annotation.name != "field_list":
                continue
            for number in self._numbers(annotation):
                cells = lists.setdefault(number, [])
                for leaf in _cells(value):
                    if not isinstance(leaf, ir.Field):
                        message = (
                            f"metadata field {field.name} holds a header, which @field_list cannot preserve"
                        )
                        raise self.low.error(field.node.pos, message)
                    cells.append(leaf)
            return
        inner = types.underlying(field.type)
        if isinstance(value, Record) and isinstance(inner, types.StructType):
            for part in inner.fields:
                self._field_list(part, value.fields[part.name], lists)

    def _numbers(self, annotation: tree.Annotation) -> list[int]:
        """The list numbers of a `@field_list`: literals, constants, members of serialisable enums."""
        words = "".join(annotation.tokens) if annotation.form != "list" else annotation.text
        numbers: list[int] = []
        for word in filter(None, (part.strip() for part in words.split(","))):
            value = self._annotation_constant(word)
            if value is None:
                message = (
                    f"@field_list takes numbers, constants and members of serialisable enums, not {word}"
                )
                raise self.low.error(annotation.pos, message)
            numbers.append(value)
        return numbers

    def _annotation_constant(self, word: str) -> int | None:
        literal = re.fullmatch(r"(?:\d+[ws])?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|\d[\d_]*)", word)
        if literal:
            return int(literal.group(1).replace("_", ""), 0)
        name, _, member = word.lstrip(".").partition(".")
        for decl in self.program.tree.decls:
            if decl.name != name:
                continue
            if isinstance(decl, tree.ConstDecl) and not member and isinstance(decl.value, int):
                return decl.value
            if isinstance(decl, tree.EnumDecl) and isinstance(decl.type, types.SerEnumType):
                return decl.type.members.get(member)
        return None

    # ------------------------------------------------------------------ blocks

    def _block(self, name: str, block: BlockObject, arguments: list[Value]) -> None:
        decl = block.decl
        if len(decl.params) != len(arguments):
            raise self.low.error(decl.pos, f"the {name} block has {len(arguments)} parameters in v1model")
        scope = self._scope(name).derive(
            env=block.env,
            path=block.name,
            cells=block.cells,
            instance=block,
            return_label=0,
            tvars=dict(zip((p.type for p in decl.type_params), block.type.args, strict=False)),
        )
        for param, value in zip(decl.params, arguments, strict=True):
            block.env[param] = value
        if name == "parser":
            states = parser_states(scope, block, "")
            no_match = self.low.errors.get("NoMatch", 0)
            flattener = StateFlattener(lambda hint, width: self.storage.cell(hint, ir.bits(width)), no_match)
            self.unit.parser = flattener.flatten(states)
            return
        assert isinstance(decl, tree.ControlDecl)
        if name in ("ingress", "egress"):
            declare_locals(scope, block)
            statements(scope, decl.body.statements)
            ir.trim_tail(scope.out, 0)
            self.unit.pipelines.append(ir.Pipeline(name, scope.out, decl.pos))
            return
        declare_locals(scope, block)
        if name == "deparser":
            lower_deparser(scope, decl.body)
            return
        if scope.out:
            message = f"variables in the {name} checksum control are not supported"
            raise self.low.error(decl.pos, f"{message}: the target runs checksums there, and nothing else")
        checksums(scope, decl.body)


def _block_name(block: BlockObject) -> str:
    annotation = block.decl.annotation("name")
    text = annotation.string if annotation is not None else None
    return text.lstrip(".") if text else block.decl.name


def _cells(value: Value) -> list[Value]:
    from compiler.values import leaves

    return list(leaves(value))
