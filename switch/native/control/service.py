"""The control service: `xoff.switch.v1.Control`, JSON objects in and out of unary gRPC calls (docs/switch.md).

JSON instead of messages, so that a shell or any language's gRPC calls it without generated code.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import grpc
from grpc.aio import ServicerContext

from switch.native import abi
from switch.native.binding import EngineError
from switch.native.control.commands import Commands
from switch.native.control.controlled import ControlError, Controlled
from switch.native.p4runtime.errors import P4RuntimeError, grpc_code
from switch.native.p4runtime.pipeline import from_engine

SERVICE = "xoff.switch.v1.Control"

_log = logging.getLogger(__name__)

_Json = dict[str, Any]
_LONGEST_DELAY = 3600 * 10**9
_PORT_FIELDS = {"rate_bps": int, "delay_ns": int, "up": bool, "loss": dict}
_LOSS_FIELDS = {"direction": str, "probability": float, "every": int, "seed": int}
_QUEUE_FIELDS = {name: float if name == "alpha" else int for name in abi.QUEUE_SETTINGS}


class ControlService:
    """The calls of one switch."""

    def __init__(self, switch: Controlled) -> None:
        self._switch = switch
        self._commands = Commands(switch)
        self._calls: dict[str, Callable[[_Json], _Json]] = {
            "Describe": self._describe,
            "GetPorts": self._get_ports,
            "SetPort": self._set_port,
            "GetQueues": self._get_queues,
            "SetQueue": self._set_queue,
            "GetBuffer": self._get_buffer,
            "SetBuffer": self._set_buffer,
            "GetDrops": self._get_drops,
            "GetTables": self._get_tables,
            "ResetWatermarks": self._reset_watermarks,
            "Command": self._command,
        }

    def handler(self) -> grpc.GenericRpcHandler:
        """To be added to a gRPC server of `grpc.aio`."""
        methods = {
            name: grpc.unary_unary_rpc_method_handler(self._served(call))
            for name, call in self._calls.items()
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    def call(self, method: str, request: _Json) -> _Json:
        """Answer one call; raises ControlError, EngineError, P4RuntimeError."""
        return self._calls[method](request)

    def _served(self, call: Callable[[_Json], _Json]) -> Callable[[bytes, ServicerContext], Any]:
        async def serve(data: bytes, context: ServicerContext) -> bytes:
            try:
                async with self._switch.exclusive():
                    return json.dumps(call(_object(data))).encode()
            except ControlError as error:
                status, text = grpc.StatusCode.INVALID_ARGUMENT, str(error)
            except EngineError as error:
                status, text = grpc_code(from_engine(error).code), str(error)
            except P4RuntimeError as error:
                status, text = grpc_code(error.code), error.message
            except Exception as error:
                _log.error("a control request failed by a fault of the switch", exc_info=error)
                status, text = grpc.StatusCode.INTERNAL, f"a fault of the switch, see its log: {error!r}"
            await context.abort(status, text)
            raise AssertionError("abort has returned")

        return serve

    # ---- ports ----
    def _describe(self, request: _Json) -> _Json:
        _only(request, {})
        engine = self._switch.engine
        return {
            "name": self._switch.name,
            "device_id": engine.device_id,
            "ports": sorted(self._switch.ports),
            "cpu_port": engine.cpu_port,
            "drop_port": engine.drop_port,
            "priority_queues": engine.priority_queues,
            "timestamp_hz": engine.timestamp_hz,
            "program_loaded": engine.loaded,
        }

    def _get_ports(self, request: _Json) -> _Json:
        _only(request, {"port": int})
        lost = self._switch.socket_drops()
        ports = []
        for port in self._chosen_ports(request):
            stats = asdict(self._switch.engine.port_stats(port))
            drops = {**stats.pop("drops"), **{r: n for r, n in lost.get(port, {}).items() if n[0]}}
            ports.append(
                {"port": port, "interface": self._switch.ports[port], **stats, "drops": _counts(drops)}
            )
        return {"ports": ports}

    def _set_port(self, request: _Json) -> _Json:
        _only(request, {"port": int, **_PORT_FIELDS})
        port = _required(request, "port")
        if port not in self._switch.ports:
            raise ControlError(
                f"there is no port {port}; there are {', '.join(map(str, self._switch.ports))}"
            )
        loss = request.get("loss")
        if loss is not None:
            _only(loss, _LOSS_FIELDS, "loss takes")
        for name in ("rate_bps", "delay_ns"):
            if not 0 <= request.get(name, 0) < 2**63:
                raise ControlError(f"{name} {request[name]} is out of range")
        if request.get("delay_ns", 0) > _LONGEST_DELAY:
            raise ControlError("a delay is an hour at most")
        if loss is not None:  # the only one that may still be refused
            self._switch.set_loss(
                port,
                loss.get("direction", "both"),
                float(loss.get("probability", 0.0)),
                loss.get("every", 0),
                loss.get("seed", 0),
            )
        if "rate_bps" in request:
            self._switch.set_rate(port, request["rate_bps"])
        if "delay_ns" in request:
            self._switch.set_delay(port, request["delay_ns"])
        if "up" in request:
            self._switch.set_up(port, request["up"])
        return self._get_ports({"port": port})

    # ---- queues and buffer ----
    def _get_queues(self, request: _Json) -> _Json:
        _only(request, {"port": int, "class": int})
        engine, queues = self._switch.engine, []
        for port in self._chosen_ports(request):
            for cls, stats in enumerate(engine.queue_stats(port)):
                if request.get("class", cls) != cls:
                    continue
                state = asdict(stats)
                drops = _counts(state.pop("drops"))
                settings = asdict(engine.queue_settings(port, cls))
                queues.append({"port": port, "class": cls, **settings, **state, "drops": drops})
        return {"queues": queues}

    def _set_queue(self, request: _Json) -> _Json:
        _only(request, {"port": int, "class": int, **_QUEUE_FIELDS})
        port, cls = request.get("port"), request.get("class")
        settings = {name: value for name, value in request.items() if name in _QUEUE_FIELDS}
        if not settings:
            raise ControlError(f"nothing is set; a queue has {', '.join(_QUEUE_FIELDS)}")
        if port is not None and port not in self._switch.ports:
            raise ControlError(
                f"there is no port {port}; there are {', '.join(map(str, self._switch.ports))}"
            )
        self._switch.set_queue(port, cls, **settings)
        return {}

    def _get_buffer(self, request: _Json) -> _Json:
        _only(request, {})
        return asdict(self._switch.engine.buffer_stats())

    def _set_buffer(self, request: _Json) -> _Json:
        _only(request, {"size": int})
        self._switch.set_buffer(_required(request, "size"))
        return self._get_buffer({})

    def _reset_watermarks(self, request: _Json) -> _Json:
        _only(request, {"port": int})
        for port in self._chosen_ports(request):
            self._switch.engine.reset_watermarks(port)
        if "port" not in request:
            self._switch.engine.reset_buffer_watermark()
        return {}

    # ---- counts ----
    def _get_drops(self, request: _Json) -> _Json:
        _only(request, {})
        drops = {reason: n for reason, n in self._switch.engine.drops().items() if n[0]}
        for lost in self._switch.socket_drops().values():
            for reason, (packets, octets) in lost.items():
                if packets:
                    seen = drops.get(reason, (0, 0))
                    drops[reason] = seen[0] + packets, seen[1] + octets
        return {"drops": _counts(drops), "faults": self._switch.engine.faults()}

    def _get_tables(self, request: _Json) -> _Json:
        _only(request, {})
        engine = self._switch.engine
        if not engine.loaded:
            return {"tables": []}
        return {"tables": [{"name": name, **engine.table_stats(name)} for name in engine.program.tables]}

    def _command(self, request: _Json) -> _Json:
        _only(request, {"line": str})
        lines, ok = self._commands.run(_required(request, "line"))
        return {"lines": lines, "ok": ok}

    def _chosen_ports(self, request: _Json) -> list[int]:
        if "port" not in request:
            return sorted(self._switch.ports)
        if request["port"] not in self._switch.ports:
            known = ", ".join(map(str, sorted(self._switch.ports)))
            raise ControlError(f"there is no port {request['port']}; there are {known}")
        return [request["port"]]


def _object(data: bytes) -> _Json:
    try:
        request = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        raise ControlError("the request is not JSON") from None
    if not isinstance(request, dict):
        raise ControlError("the request is not a JSON object")
    return request


def _only(request: _Json, fields: dict[str, type], takes: str = "the call takes") -> None:
    """Refuse fields that are not known or of another type."""
    for name, given in request.items():
        wanted = fields.get(name)
        if wanted is None:
            raise ControlError(f"there is no field {name!r}; {takes} {', '.join(fields) or 'none'}")
        accepted = (int, float) if wanted is float else (wanted,)
        if not isinstance(given, accepted) or (isinstance(given, bool) and wanted is not bool):
            raise ControlError(f"{name} is a JSON {_JSON_NAMES[wanted]}, not {json.dumps(given)[:40]}")


_JSON_NAMES = {int: "integer", float: "number", bool: "boolean", str: "string", dict: "object"}


def _required(request: _Json, name: str) -> Any:
    if name not in request:
        raise ControlError(f"the field {name} is missing")
    return request[name]


def _counts(drops: dict[str, tuple[int, int]]) -> _Json:
    return {reason: {"packets": packets, "bytes": octets} for reason, (packets, octets) in drops.items()}
