"""The parser in C: one label per state, select as comparisons in order.

An error ends parsing with its code; what was extracted stays. A state machine that can come back to a state is bounded
by the frame's length plus STEPS, since a state need not consume anything.
"""

from __future__ import annotations

from switch.native.cgen_actions import Actions
from switch.native.cgen_expr import Body, Data, Expressions, Raw, stored
from switch.native.cgen_layout import Layout, Place, pointers
from switch.native.cgen_trace import PARSED, STATE
from switch.native.document import Node
from switch.native.program import Program, limbs, split

STEPS = 1024


class Parser:
    """Writes `parse`."""

    def __init__(self, program: Program, layout: Layout, actions: Actions) -> None:
        self.program = program
        self.layout = layout
        self.actions = actions
        self.reader = Expressions(program, layout)

    def error(self, name: str) -> int:
        """The program's number of a core error; 0 when it does not declare it."""
        return self.program.errors.get(name, 0)

    def function(self) -> str:
        """The C function; sets x->parsed and x->parser_error."""
        node = self.program.parser
        lines = ["static void parse(xf_ctx *x, struct phv *P) {", "    const uint8_t *d = x->frame;"]
        lines += ["    uint32_t n = x->length, o = 0, error = 0;", "    (void)d; (void)n; (void)P;"]
        if node is None or node["init_state"].missing:
            lines += ["    x->parsed = 0;", f"    x->parser_error = error = {self.error('NoError')};", "}"]
            return "\n".join(lines)
        states: dict[str, tuple[int, Node]] = {}
        for state in node["parse_states"].named():
            name = state["name"].text()
            if name in states:
                raise state.fail(f"state '{name}' is defined twice")
            states[name] = (len(states), state)
        first = node["init_state"].text()
        if first not in states:
            raise node["init_state"].fail(f"there is no parser state '{first}'")
        looping = self._loops(states)
        lines.append(f"    error = {self.error('NoError')};")
        if looping:
            lines.append(f"    uint32_t steps = n + {STEPS};")
        lines.append(f"    goto S{states[first][0]};")
        for number, state in states.values():
            lines.append(
                f"S{number}: {{ /* {''.join(c if c.isalnum() or c in '_.' else '?' for c in state['name'].text())} */"
            )
            body = Body()
            self.actions.tracing.point(body, STATE, str(number), "o")
            if looping:
                body.add(
                    f"if (!steps--) {{ xf_parser_loop(x); error = {self.error('ParserTimeout')}; goto done; }}"
                )
            for op in state["parser_ops"].items():
                inner = Body()
                inner.count = body.count
                self.operation(op, inner)
                body.count = inner.count
                body.lines += ["{", *inner.lines, "}"]
            self.transitions(state, states, body)
            lines += ["    " + line for line in body.lines]
            lines.append("}")
        lines += ["done:", "    x->parsed = o;", "    x->parser_error = error;"]
        self.actions.tracing.point(lines, PARSED, "o", "error")
        lines.append("}")
        return "\n".join(lines)

    @staticmethod
    def _loops(states: dict[str, tuple[int, Node]]) -> bool:
        edges = {
            name: [
                t["next_state"].text()
                for t in state["transitions"].items()
                if t["next_state"].value is not None
            ]
            for name, (_, state) in states.items()
        }
        done: set[str] = set()
        for start in edges:
            if start in done:
                continue
            active = {start}
            stack = [(start, iter(edges[start]))]
            while stack:
                name, left = stack[-1]
                target = next(left, None)
                if target is None:
                    done.add(name)
                    active.discard(name)
                    stack.pop()
                elif target in active:
                    return True
                elif target not in done and target in edges:
                    active.add(target)
                    stack.append((target, iter(edges[target])))
        return False

    def fail(self, name: str) -> str:
        """C: stop with a core error."""
        return f"{{ error = {self.error(name)}; goto done; }}"

    # ---- operations ----

    def operation(self, node: Node, body: Body) -> None:
        """One parser op."""
        op = node["op"].text()
        params = node["parameters"].items()
        if op in ("extract", "extract_VL"):
            self.extract(node, params, body, op == "extract_VL")
        elif op == "set":
            self.set(node, params, body)
        elif op == "verify":
            if len(params) != 2:
                raise node["parameters"].fail("verify takes 2 parameters")
            cond = self.reader.boolean(params[0], body)
            code = self.reader.data(params[1], body).u64(body)
            body.add(f"if (!{cond}) {{ error = (uint32_t){code}; goto done; }}")
        elif op == "shift":
            count = params[0].integer(0, 1 << 20)
            body.add(f"if (n - o < {count}) {self.fail('PacketTooShort')}")
            body.add(f"o += {count};")
        elif op == "advance":
            name = body.temp()
            body.add(f"uint64_t {name} = {self.reader.data(params[0], body).amount(body)};")
            body.add(f"if ({name} % 8) {self.fail('ParserInvalidArgument')}")
            body.add(f"if (n - o < {name} / 8) {self.fail('PacketTooShort')}")
            body.add(f"o += (uint32_t)({name} / 8);")
        elif op == "primitive":
            if len(params) != 1:
                raise node["parameters"].fail("a primitive takes 1 parameter")
            self.actions.primitive(params[0], body, [])
        else:
            raise node["op"].fail(f"parser operation '{op}' is not known")

    def extract(self, node: Node, params: list[Node], body: Body, variable: bool) -> None:
        """Extract to a header, the end of a stack, or a member of the end of a union stack."""
        if len(params) != (2 if variable else 1):
            raise node["parameters"].fail(f"'{node['op'].value}' takes {2 if variable else 1} parameters")
        kind, where = params[0]["type"].text(), params[0]["value"]
        after: list[str] = []
        if kind == "regular":
            place = self.layout.place(self.reader.find(self.program.headers, where, "header"))
        elif kind == "stack":
            stack = self.reader.find(self.program.stacks, where, "header stack")
            next_index = self.layout.next_of(stack)
            body.add(f"if ({next_index} >= {len(stack.headers)}) {self.fail('StackOutOfBounds')}")
            place = Place(f"P->s{stack.index}[{next_index}]", stack.type)
            after.append(f"{next_index}++;")
        elif kind == "union_stack":
            stack_node, member_node = where.tuple(2)
            ustack = self.reader.find(self.program.union_stacks, stack_node, "header union stack")
            names = ustack.unions[0].member_names
            if member_node.text() not in names:
                raise member_node.fail(f"the union has no member '{member_node.value}'")
            next_index = self.layout.next_of(ustack)
            body.add(f"if ({next_index} >= {len(ustack.unions)}) {self.fail('StackOutOfBounds')}")
            lvalue = f"P->us{ustack.index}[{next_index}]"
            place = self.layout.member(lvalue, ustack.unions[0], names.index(member_node.text()))
            after.append(f"{next_index}++;")
        else:
            raise params[0]["type"].fail(f"cannot extract to '{kind}'")
        if place.metadata:
            raise where.fail("cannot extract to metadata")
        fixed = place.type.fixed_bits // 8
        varbit = place.type.varbit
        if variable:
            if varbit is None:
                raise node.fail(f"header type '{place.type.name}' has no varbit")
            bits = body.temp()
            body.add(f"uint64_t {bits} = {self.reader.data(params[1], body).amount(body)};")
            body.add(f"if ({bits} % 8) {self.fail('ParserInvalidArgument')}")
            body.add(f"if (n - o < {fixed} + {bits} / 8) {self.fail('PacketTooShort')}")
            body.add(f"if ({bits} > {varbit.width}) {self.fail('HeaderTooShort')}")
            size, length = f"{fixed} + (uint32_t){bits} / 8", f"(uint32_t){bits}"
        else:
            body.add(f"if (n - o < {fixed}) {self.fail('PacketTooShort')}")
            size, length = str(fixed), "0"
        body.add(f"unpack_T{place.type.index}(&{place.lvalue}, d + o, {length});")
        if place.union:
            body.lines += place.set_valid()
        body.add(f"o += {size};")
        body.lines += after

    def lookahead(self, node: Node, body: Body) -> Data:
        """Bits at an offset from the cursor; too short a frame is an error."""
        offset, width = node[0].integer(0, 1 << 16), node[1].integer(1, 4096)
        need = (offset + width + 7) // 8
        body.add(f"if (n - o < {need}) {self.fail('PacketTooShort')}")
        if width > 64:
            name = body.array(limbs(width))
            body.add(f"xf_w_get({name}, {limbs(width)}, d + o, {offset}, {width});")
            return stored(name, width)
        name = body.temp()
        if offset % 8 == 0 and width in (8, 16, 32, 64):
            body.add(f"uint64_t {name} = xf_load{width}(d + o + {offset // 8});")
        else:
            body.add(f"uint64_t {name} = xf_get_bits(d + o, {offset}, {width});")
        return Raw(0, (1 << width) - 1, name)

    def set(self, node: Node, params: list[Node], body: Body) -> None:
        """Assign to a field."""
        if len(params) != 2:
            raise node["parameters"].fail("set takes 2 parameters")
        target = self.reader.target(params[0], body)
        kind = params[1]["type"].text()
        if kind == "lookahead":
            self.reader.store(target, self.lookahead(params[1]["value"], body), body, node)
            return
        if target.field.varbit and kind == "field":
            source = self.reader.target(params[1], body)
            if not source.field.varbit or source.field.width > target.field.width:
                raise node.fail("expected two varbits, the first not shorter")
            body.add(f"memcpy({target.lvalue}, {source.lvalue}, {source.lvalue}n / 8);")
            body.add(f"{target.lvalue}n = {source.lvalue}n;")
            return
        self.reader.store(target, self.reader.data(params[1], body), body, node)

    # ---- transitions ----

    def key(self, state: Node, body: Body) -> list[tuple[Data, int]]:
        """The values to select on and their widths."""
        key: list[tuple[Data, int]] = []
        for element in state["transition_key"].items():
            kind, where = element["type"].text(), element["value"]
            if kind == "lookahead":
                key.append((self.lookahead(where, body), where[1].integer(1, 4096)))
            elif kind in ("field", "stack_field"):
                target = self.reader.target(element, body)
                if target.field.varbit:
                    raise element.fail("a varbit cannot be selected on")
                # Compared as unsigned bits, whatever its sign.
                key.append((stored(target.lvalue, target.field.width), target.field.width))
            elif kind == "union_stack_field":
                stack_node, member_node, field_node = where.tuple(3)
                ustack = self.reader.find(self.program.union_stacks, stack_node, "header union stack")
                names = ustack.unions[0].member_names
                if member_node.text() not in names:
                    raise member_node.fail(f"the union has no member '{member_node.value}'")
                index = f"xf_element((uint64_t){self.layout.next_of(ustack)} - 1, {len(ustack.unions)})"
                lvalue = f"P->us{ustack.index}[{index}]"
                place = self.layout.member(lvalue, ustack.unions[0], names.index(member_node.text()))
                if field_node.text() not in place.type.by_name:
                    raise field_node.fail(f"there is no field '{field_node.value}'")
                i = place.type.by_name[field_node.text()]
                width = place.type.fields[i].width
                key.append((stored(place.field(i), width), width))
            else:
                raise element["type"].fail(f"'{kind}' cannot be selected on")
        return key

    def transitions(self, state: Node, states: dict[str, tuple[int, Node]], body: Body) -> None:
        """Select the next state."""
        key = self.key(state, body)
        names: list[str] = []
        for value, width in key:
            if width <= 64:
                name = body.temp()
                body.add(f"uint64_t {name} = {value.u64(body)};")
                names.append(name)
            else:
                names.append(value.wide(body, limbs(width)))
        default = "goto done;"
        for node in state["transitions"].items():
            kind_node = node.get("type")
            kind = "default" if node["value"].value == "default" else "hexstr"
            if not kind_node.missing:
                kind = kind_node.text()
            goto = self.goto(node["next_state"], states)
            if kind == "default":
                default = goto
            elif kind == "hexstr":
                condition = self.condition(node, key, names)
                body.add(f"if ({condition}) {goto}")
            elif kind == "parse_vset":
                self.value_set(node, key, names, goto, body)
            else:
                raise kind_node.fail(f"transition type '{kind}' is not known")
        body.add(default)

    @staticmethod
    def goto(node: Node, states: dict[str, tuple[int, Node]]) -> str:
        if node.missing:
            return "goto done;"
        if node.text() not in states:
            raise node.fail(f"there is no parser state '{node.value}'")
        return f"goto S{states[node.text()][0]};"

    @staticmethod
    def _pieces(number: int, key: list[tuple[Data, int]]) -> list[int]:
        """A transition's value by key element: each is padded to whole bytes."""
        pieces = []
        for _, width in reversed(key):
            padded = width + -width % 8
            pieces.append(number & ((1 << padded) - 1))
            number >>= padded
        return pieces[::-1]

    def condition(self, node: Node, key: list[tuple[Data, int]], names: list[str]) -> str:
        """C: the key equals a value under a mask."""
        if not key:
            raise node.fail("a transition with a value needs a transition key")
        total = sum(width + -width % 8 for _, width in key)
        values = self._pieces(node["value"].hexstr(total), key)
        mask_node = node.get("mask")
        masks = self._pieces((1 << total) - 1 if mask_node.missing else mask_node.hexstr(total), key)
        tests = []
        for name, (_, width), value, mask in zip(names, key, values, masks, strict=True):
            mask &= (1 << width) - 1 if value < 1 << width else (1 << (width + -width % 8)) - 1
            if not mask:
                continue
            full = mask == (1 << width) - 1
            value &= mask
            if width <= 64:
                tests.append(f"{name} == {value:#x}ul" if full else f"({name} & {mask:#x}ul) == {value:#x}ul")
            else:
                n = limbs(width)
                for i, (v, m) in enumerate(zip(split(value, n), split(mask, n), strict=True)):
                    if m:
                        tests.append(f"({name}[{i}] & {m:#x}ul) == {v:#x}ul")
        return " && ".join(tests) or "1"

    def value_set(
        self, node: Node, key: list[tuple[Data, int]], names: list[str], goto: str, body: Body
    ) -> None:
        """Test the key against a value set."""
        array = self.reader.find(self.program.value_sets, node["value"], "parser value set")
        widths = [width for _, width in key]
        if sum(widths) != array.width:
            raise node.fail(f"the key has {sum(widths)} bits, value set '{array.name}' has {array.width}")
        if self.program.value_set_widths.setdefault(array.name, widths) != widths:
            raise node.fail(f"value set '{array.name}' is used with keys of different shapes")
        words = body.temp()
        parts = []
        for name, width in zip(names, widths, strict=True):
            parts += [name] if width <= 64 else [f"{name}[{i}]" for i in range(limbs(width))]
        body.add(f"uint64_t {words}[] = {{{', '.join(parts)}}};")
        mask_node = node.get("mask")
        mask = "NULL"
        if not mask_node.missing:
            total = sum(width + -width % 8 for width in widths)
            values: list[int] = []
            for piece, width in zip(self._pieces(mask_node.hexstr(total), key), widths, strict=True):
                values += split(piece, limbs(width))
            mask = body.temp()
            body.add(f"static const uint64_t {mask}[] = {pointers(values)};")
        body.add(f"if (xf_value_set_match(x, {array.index}, {words}, {mask})) {goto}")
