"""Actions in C: every primitive that p4c emits for v1model, and P4_14's older ones where they mean the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from switch.native.cgen_arrays import places, register_cell
from switch.native.cgen_expr import (
    Body,
    Const,
    Data,
    Expressions,
    HeaderValue,
    Raw,
    StackValue,
    Target,
    UnionStackValue,
    UnionValue,
    binary,
    stored,
)
from switch.native.cgen_layout import Layout, Place
from switch.native.cgen_trace import STATEMENT, Tracing
from switch.native.document import Node
from switch.native.program import Action, Array, Program

_TWO_OPERANDS = {
    "add": "+",
    "subtract": "-",
    "bit_xor": "^",
    "bit_or": "|",
    "bit_and": "&",
    "shift_left": "<<",
    "shift_right": ">>",
}


@dataclass
class Intrinsics:
    """Where BMv2's own metadata fields are in this program."""

    program: Program
    layout: Layout

    def target(self, name: str) -> Target | None:
        """`standard_metadata.egress_spec` and the like; None when the program has no such field."""
        header_name, field_name = self.program.aliases.get(name, tuple(name.split(".")))
        header = self.program.headers.get(header_name)
        if header is None or field_name not in header.type.by_name:
            return None
        return Target(self.layout.place(header), header.type.by_name[field_name])

    def set(self, name: str, value: str) -> list[str]:
        """Statements that set it to a C expression, if it exists."""
        target = self.target(name)
        if target is None or not target.field.width:
            return []
        body = Body()
        Expressions.store_bits(target.lvalue, target.field.width, Raw(0, (1 << 64) - 1, value), body)
        return body.lines

    def get(self, name: str) -> str:
        """A C expression for its value; 0 if it does not exist."""
        target = self.target(name)
        if target is None:
            return "0"
        return stored(target.lvalue, target.field.width).u64(Body())


class Actions:
    """Writes the primitives of actions, parser states and deparsers."""

    def __init__(self, program: Program, layout: Layout, intrinsics: Intrinsics, tracing: Tracing) -> None:
        self.program = program
        self.layout = layout
        self.intrinsics = intrinsics
        self.tracing = tracing
        self.exiting: set[int] = set()
        """Indices of actions that may exit."""

    def function(self, action: Action) -> str:
        """The C function of an action."""
        body = Body()
        nodes = action.primitives.items()
        labels = self._labels(nodes)
        for i, node in enumerate(nodes):
            if i in labels:
                body.add(f"L{i}:;")
            inner = Body()
            inner.count = body.count
            op = node["op"].text()
            if op in ("_jump", "_jump_if_zero"):
                self._jump(op, node, inner, action, i)
            else:
                self.primitive(node, inner, action.params)
                self.tracing.point(inner, STATEMENT, str(action.index), str(i))
            if any("x->exit = 1" in line for line in inner.lines):
                self.exiting.add(action.index)
            body.count = inner.count
            body.lines += ["{", *inner.lines, "}"]
        if len(nodes) in labels:
            body.add(f"L{len(nodes)}:;")
        text = "\n".join("    " + line for line in body.lines)
        return (
            f"static void a{action.index}(xf_ctx *x, struct phv *P, const uint64_t *A) {{\n"
            f"    (void)x; (void)P; (void)A;\n{text}\n}}"
        )

    @staticmethod
    def _labels(nodes: list[Node]) -> set[int]:
        targets = set()
        for node in nodes:
            op = node["op"].text()
            if op in ("_jump", "_jump_if_zero"):
                where = node["parameters"][0 if op == "_jump" else 1]
                if where["type"].text() != "hexstr":
                    raise where.fail("expected a constant jump target")
                target = where["value"].hexstr()
                if not 0 <= target <= len(nodes):
                    raise where.fail(f"jump target {target} is not in 0..{len(nodes)}")
                targets.add(target)
        return targets

    def _jump(self, op: str, node: Node, body: Body, action: Action, here: int) -> None:
        params = node["parameters"].items()
        target = params[0 if op == "_jump" else 1]["value"].hexstr()
        goto = f"goto L{target};"
        if target <= here:  # a loop of the program, which data may make endless
            goto = (
                f"{{ if (!x->budget--) {{ xf_parser_loop(x); x->budget = 0; x->exit = 1; return; }} {goto} }}"
            )
        if op == "_jump":
            body.add(goto)
        else:
            reader = Expressions(self.program, self.layout, action.params)
            cond = reader.truth(reader.data(params[0], body), body)
            body.add(f"if (!{cond}) {goto}")

    def primitive(self, node: Node, body: Body, params: list[tuple[str, int]]) -> None:
        """Append one primitive's statements."""
        op = node["op"].text()
        args = node["parameters"].items()
        reader = Expressions(self.program, self.layout, params)
        writer: Callable[[Node, list[Node], Expressions, Body], None] | None = getattr(
            self, f"_do_{op}", None
        )
        if op in _TWO_OPERANDS:
            self._count(node, args, 3)
            value = binary(_TWO_OPERANDS[op], reader.data(args[1], body), reader.data(args[2], body), node)
            reader.store(reader.target(args[0], body), value, body, args[0])
        elif writer is None or op.startswith("_"):
            raise node["op"].fail(f"primitive '{op}' is not known")
        else:
            writer(node, args, reader, body)

    @staticmethod
    def _count(node: Node, args: list[Node], count: int) -> None:
        if len(args) != count:
            raise node["parameters"].fail(f"'{node['op'].value}' takes {count} parameters, found {len(args)}")

    # ---- assignments ----

    def _do_assign(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        reader.store(reader.target(args[0], body), reader.data(args[1], body), body, args[0])

    _do_modify_field = _do_assign

    def _do_add_to_field(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        target = reader.target(args[0], body)
        reader.store(
            target, binary("+", reader.read(target, args[0]), reader.data(args[1], body), node), body, node
        )

    def _do_subtract_from_field(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        target = reader.target(args[0], body)
        reader.store(
            target, binary("-", reader.read(target, args[0]), reader.data(args[1], body), node), body, node
        )

    def _do_assign_VL(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        to, source = reader.target(args[0], body), reader.target(args[1], body)
        if not (to.field.varbit and source.field.varbit) or to.field.width < source.field.width:
            raise node.fail("expected two varbits, the first not shorter")
        body.add(f"memcpy({to.lvalue}, {source.lvalue}, {source.lvalue}n / 8);")
        body.add(f"{to.lvalue}n = {source.lvalue}n;")

    def _do_assign_header(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        to, source = reader.value(args[0], body), reader.value(args[1], body)
        if (
            not isinstance(to, HeaderValue)
            or not isinstance(source, HeaderValue)
            or to.place.type is not source.place.type
        ):
            raise node.fail("expected two headers of one type")
        if to.place.metadata or source.place.metadata:
            body.add(f"{to.place.lvalue} = {source.place.lvalue};")
            return
        body.add(f"if ({source.place.valid}) {{")
        body.add(f"{to.place.lvalue} = {source.place.lvalue};")
        body.lines += to.place.set_valid()
        body.add(f"}} else {to.place.lvalue}.valid = 0;")

    _do_copy_header = _do_assign_header

    def _do_assign_union(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        to, source = reader.value(args[0], body), reader.value(args[1], body)
        if (
            not isinstance(to, UnionValue)
            or not isinstance(source, UnionValue)
            or to.union.type != source.union.type
        ):
            raise node.fail("expected two header unions of one type")
        body.add(f"{to.lvalue} = {source.lvalue};")

    def _do_assign_header_stack(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        to, source = reader.value(args[0], body), reader.value(args[1], body)
        if (
            not isinstance(to, StackValue)
            or not isinstance(source, StackValue)
            or to.stack.type is not source.stack.type
            or len(to.stack.headers) != len(source.stack.headers)
        ):
            raise node.fail("expected two header stacks of one type and depth")
        body.add(f"memcpy(P->s{to.stack.index}, P->s{source.stack.index}, sizeof P->s{to.stack.index});")
        body.add(f"{self.layout.next_of(to.stack)} = {self.layout.next_of(source.stack)};")

    def _do_assign_union_stack(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        to, source = reader.value(args[0], body), reader.value(args[1], body)
        if (
            not isinstance(to, UnionStackValue)
            or not isinstance(source, UnionStackValue)
            or to.stack.unions[0].type != source.stack.unions[0].type
            or len(to.stack.unions) != len(source.stack.unions)
        ):
            raise node.fail("expected two header union stacks of one type and depth")
        body.add(f"memcpy(P->us{to.stack.index}, P->us{source.stack.index}, sizeof P->us{to.stack.index});")
        body.add(f"{self.layout.next_of(to.stack)} = {self.layout.next_of(source.stack)};")

    # ---- headers and stacks ----

    def _place(self, node: Node, reader: Expressions, body: Body) -> Place:
        place = reader.header(node, body)
        if place.metadata:
            raise node.fail("a metadata instance has no validity")
        return place

    def _do_add_header(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 1)
        place = self._place(args[0], reader, body)
        body.add(f"if (!{place.valid}) {{")
        body.add(f"memset(&{place.lvalue}, 0, sizeof {place.lvalue});")
        body.lines += place.set_valid()
        body.add(f"x->packet_length += {place.size};")
        body.add("}")

    def _do_add_header_fast(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 1)
        body.lines += self._place(args[0], reader, body).set_valid()

    def _do_remove_header(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 1)
        place = self._place(args[0], reader, body)
        body.add(f"if ({place.valid}) {{")
        body.add(f"x->packet_length -= {place.size};")
        body.add(f"{place.lvalue}.valid = 0;")
        body.add("}")

    def _shift(self, node: Node, args: list[Node], reader: Expressions, body: Body, function: str) -> None:
        self._count(node, args, 2)
        stack = reader.value(args[0], body)
        if isinstance(stack, StackValue):
            base, depth = f"P->s{stack.stack.index}", len(stack.stack.headers)
        elif isinstance(stack, UnionStackValue):
            base, depth = f"P->us{stack.stack.index}", len(stack.stack.unions)
        else:
            raise args[0].fail("expected a header stack")
        amount = reader.data(args[1], body).amount(body)
        body.add(f"{function}({base}, sizeof {base}[0], {depth}, {amount}, &{base}_next);")

    def _do_push(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._shift(node, args, reader, body, "xf_stack_push")

    def _do_pop(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._shift(node, args, reader, body, "xf_stack_pop")

    # ---- the packet's fate ----

    def _do_mark_to_drop(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        """Of the header given: p4c may pass a copy of the standard metadata that it copies back later."""
        self._count(node, args, 1)
        place = reader.header(args[0], body)
        if "egress_spec" not in place.type.by_name:
            raise args[0].fail("expected standard metadata")
        for name, value in (("egress_spec", "(uint64_t)x->drop_port"), ("mcast_grp", "0")):
            index = place.type.by_name.get(name)
            if index is not None:
                width = place.type.fields[index].width
                reader.store_bits(place.field(index), width, Raw(0, (1 << 64) - 1, value), body)

    def _do_drop(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        body.lines += self.intrinsics.set("standard_metadata.egress_spec", "x->drop_port")
        body.lines += self.intrinsics.set("intrinsic_metadata.mcast_grp", "0")

    def _do_exit(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        body.add("x->exit = 1;")

    def _do_no_op(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        pass

    def _constant(self, node: Node, reader: Expressions, body: Body) -> int:
        value = reader.data(node, body)
        if not isinstance(value, Const):
            raise node.fail("expected a constant")
        return value.low

    def _field_list(self, node: Node, reader: Expressions, body: Body) -> int:
        number = self._constant(node, reader, body)
        if number and number not in self.program.field_lists:
            raise node.fail(f"there is no field list {number}")
        return number

    def _clone(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        session = reader.data(args[0], body).u64(body)
        body.add(f"x->clone_session = (uint32_t)({session} & 0x7fff) | XF_CLONE_ASKED;")
        body.add(f"x->clone_list = {self._field_list(args[1], reader, body)};")

    _do_clone_ingress_pkt_to_egress = _clone
    _do_clone_egress_pkt_to_egress = _clone

    def _do_resubmit(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 1)
        body.add(f"x->resubmit_list = {self._field_list(args[0], reader, body)};")

    def _do_recirculate(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 1)
        body.add(f"x->recirculate_list = {self._field_list(args[0], reader, body)};")

    def _do_generate_digest(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        number = self._constant(args[1], reader, body)
        if number not in self.program.digests:
            raise args[1].fail(f"there is no learn list {number}")
        body.add(f"x->digest_list = {number};")

    def _do_truncate(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 1)
        name = body.temp()
        body.add(f"uint64_t {name} = {reader.data(args[0], body).amount(body)};")
        body.add(f"if ({name} < x->truncate) x->truncate = (uint32_t){name};")

    # ---- stateful externs ----

    def _array(self, node: Node, arrays: dict[str, Array], kind: str, reader: Expressions) -> Array:
        if node["type"].text() != kind:
            raise node["type"].fail(f"expected '{kind}', found '{node['type'].value}'")
        found: Array = reader.find(arrays, node["value"], kind.replace("_", " "))
        return found

    def _do_count(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 2)
        if args[0]["value"].text() in self.program.direct_counters:
            return  # counted by the table
        counter = self._array(args[0], self.program.counters, "counter_array", reader)
        stride = places(self.program.counters.values(), registers=False)[counter.name].stride
        body.add(f"xf_count(x, {counter.index}, {reader.data(args[1], body).amount(body)}, {stride});")

    def _do_execute_meter(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 3)
        meter = self._array(args[0], self.program.meters, "meter_array", reader)
        colour = body.temp()
        body.add(f"uint32_t {colour};")
        body.add(
            f"if (xf_meter_execute(x, {meter.index}, {reader.data(args[1], body).amount(body)}, &{colour})) {{"
        )
        reader.store(reader.target(args[2], body), Raw(0, 2, f"(uint64_t){colour}"), body, args[2])
        body.add("}")

    def _index(self, array: Array, node: Node, reader: Expressions, body: Body) -> str:
        index = body.temp()
        body.add(f"uint64_t {index} = {reader.data(node, body).amount(body)};")
        body.add(f"if ({index} >= {array.size}) xf_out_of_bounds(x);")
        body.add("else {")
        return index

    def _do_register_read(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 3)
        array = self._array(args[1], self.program.registers, "register_array", reader)
        index = self._index(array, args[2], reader, body)
        text = register_cell(array, self.program.registers.values(), index)
        reader.store(reader.target(args[0], body), stored(text, array.width), body, args[0])
        body.add("}")

    def _do_register_write(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 3)
        array = self._array(args[0], self.program.registers, "register_array", reader)
        index = self._index(array, args[1], reader, body)
        text = register_cell(array, self.program.registers.values(), index)
        reader.store_bits(text, array.width, reader.data(args[2], body), body)
        if array.name == self.program.pause_register:
            body.add(f"xf_pause_written(x, {index}, {text});")
        body.add("}")

    def _do_modify_field_rng_uniform(
        self, node: Node, args: list[Node], reader: Expressions, body: Body
    ) -> None:
        self._count(node, args, 3)
        low, high = body.temp(), body.temp()
        body.add(f"uint64_t {low} = {reader.data(args[1], body).u64(body)};")
        body.add(f"uint64_t {high} = {reader.data(args[2], body).u64(body)};")
        body.add(f"if ({low} <= {high}) {{")
        value = Raw(0, (1 << 64) - 1, f"xf_random(x, {low}, {high})")
        reader.store(reader.target(args[0], body), value, body, args[0])
        body.add("}")

    def _do_modify_field_with_hash_based_offset(
        self, node: Node, args: list[Node], reader: Expressions, body: Body
    ) -> None:
        self._count(node, args, 4)
        name = args[2]["value"]
        if name.text() not in self.program.calculations:
            raise name.fail(f"there is no calculation '{name.value}'")
        number = list(self.program.calculations).index(name.text())
        base, size = body.temp(), body.temp()
        body.add(f"uint64_t {base} = {reader.data(args[1], body).u64(body)};")
        body.add(f"uint64_t {size} = {reader.data(args[3], body).u64(body)};")
        value = Raw(0, (1 << 64) - 1, f"(calc{number}(x, P) % ({size} ? {size} : 1) + {base})")
        reader.store(reader.target(args[0], body), value, body, args[0])

    # ---- reports ----

    def _message(self, text: str, is_assert: bool) -> int:
        self.program.log_messages.append((text, is_assert))
        return len(self.program.log_messages) - 1

    def _do_assert(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        self._count(node, args, 1)
        info = node.get("source_info")
        text = f"{node['op'].value} failed"
        if not info.missing and not info.get("source_fragment").missing:
            line = info.get("line")
            place = "" if line.missing else f" at line {line.value}"
            text = f"{info['source_fragment'].text()} failed{place}"
        number = self._message(text, True)
        body.add(f"if (!({reader.boolean(args[0], body)})) xf_assert_failed(x, {number});")

    _do_assume = _do_assert

    def _do_log_msg(self, node: Node, args: list[Node], reader: Expressions, body: Body) -> None:
        if not args or args[0]["type"].text() != "string":
            raise node["parameters"].fail("expected a format string")
        values: list[Data] = []
        for arg in args[1:]:
            if arg["type"].text() == "parameters_vector":
                if arg["value"].value == {}:
                    continue  # p4c's way to write an empty vector
                values += [reader.data(item, body) for item in arg["value"].items()]
            else:
                values.append(reader.data(arg, body))
        number = self._message(args[0]["value"].text(), False)
        words = body.temp()
        body.add(f"uint64_t {words}[{max(1, 2 * len(values))}];")
        for i, value in enumerate(values):
            wide = value.wide(body, 2)
            body.add(f"{words}[{2 * i}] = {wide}[0]; {words}[{2 * i + 1}] = {wide}[1];")
        body.add(f"xf_log(x, {number}, {words}, {2 * len(values)});")
