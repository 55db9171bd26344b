"""A P4Runtime server on a real engine without interfaces, and a client that names things as the program does."""

import asyncio
import threading
import time
from contextlib import contextmanager

import grpc
from finsy.proto import p4i, p4r, p4r_grpc, rpc_status
from google.protobuf import text_format
from p4programs import compiled

from switch.native.binding import Engine
from switch.native.p4runtime.device import P4RuntimeDevice
from switch.native.p4runtime.errors import STATUS_DETAILS_KEY
from switch.native.p4runtime.server import P4RuntimeServer

DEVICE_ID = 3
PORTS = (1, 2, 3, 4)
TIMEOUT = 10.0


class Served:
    """A device that listens. Frames go in and out by `exchange`."""

    def __init__(self, **engine_options):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.engine = Engine(None, device_id=DEVICE_ID, **engine_options)
        for port in PORTS:
            self.engine.add_port(port)
        self.device, self.server, self.address = self.run(self._start())
        for port in PORTS:
            self.call(self.device.port_changed, port, True)

    async def _start(self):
        device = P4RuntimeDevice(DEVICE_ID, self.engine, wake=lambda: None)
        server = P4RuntimeServer(device)
        return device, server, await server.start("127.0.0.1:0")

    def run(self, coroutine):
        """Run a coroutine on the server's event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(TIMEOUT)

    def call(self, function, *arguments):
        """Call a function on the server's event loop."""

        async def wrapped():
            return function(*arguments)

        return self.run(wrapped())

    def exchange(self, port, frame):
        """Give a frame to a port; returns the (port, frame) that leave, CPU frames and digests sent on."""
        if frame is not None:
            self.engine.rx(port, frame, time.monotonic_ns())
        out = self.engine.poll(time.monotonic_ns())
        self.call(self.drain)
        return out

    def drain(self):
        self.device.drain(self.engine.pending())

    def close(self):
        self.run(self.server.stop())
        self.call(self.device.close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self.engine.close()


class Client:
    """A controller. Entities are addressed by their names in P4Info."""

    def __init__(self, address, info=None):
        self.channel = grpc.insecure_channel(address, options=[("grpc.max_metadata_size", 1 << 20)])
        self.stub = p4r_grpc.P4RuntimeStub(self.channel)
        self.device_id = DEVICE_ID
        self.election_id = 1
        self.info = info

    def close(self):
        self.channel.close()

    # ---- configuration ----
    def set_config(self, config, action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT, **fields):
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.device_id, action=action, config=config, election_id=self._election(), **fields
        )
        answer = self.stub.SetForwardingPipelineConfig(request, timeout=60)
        if config is not None:
            self.info = config.p4info
        return answer

    def get_config(self, kind=p4r.GetForwardingPipelineConfigRequest.ALL):
        request = p4r.GetForwardingPipelineConfigRequest(device_id=self.device_id, response_type=kind)
        return self.stub.GetForwardingPipelineConfig(request, timeout=TIMEOUT).config

    # ---- entities ----
    def write(self, *updates, atomicity=0):
        request = p4r.WriteRequest(
            device_id=self.device_id, election_id=self._election(), updates=updates, atomicity=atomicity
        )
        try:
            return self.stub.Write(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            print(*errors_of(error), sep="\n")  # shown where a test did not expect it
            raise

    def insert(self, **entity):
        return self.write(p4r.Update(type=p4r.Update.INSERT, entity=p4r.Entity(**entity)))

    def modify(self, **entity):
        return self.write(p4r.Update(type=p4r.Update.MODIFY, entity=p4r.Entity(**entity)))

    def delete(self, **entity):
        return self.write(p4r.Update(type=p4r.Update.DELETE, entity=p4r.Entity(**entity)))

    def read(self, **entity):
        request = p4r.ReadRequest(device_id=self.device_id, entities=[p4r.Entity(**entity)])
        kind = next(iter(entity))
        return [
            getattr(found, kind)
            for response in self.stub.Read(request, timeout=TIMEOUT)
            for found in response.entities
        ]

    def id(self, name):
        """The id of anything in P4Info by its name or the name's last part."""
        for group in (
            self.info.tables,
            self.info.actions,
            self.info.action_profiles,
            self.info.counters,
            self.info.meters,
            self.info.registers,
            self.info.digests,
            self.info.value_sets,
        ):
            for found in group:
                if name in (found.preamble.name, found.preamble.name.split(".")[-1]):
                    return found.preamble.id
        raise KeyError(name)

    def action(self, name, *values):
        action = p4r.Action(action_id=self.id(name))
        for number, value in enumerate(values, 1):
            action.params.add(param_id=number, value=data(value))
        return action

    def entry(self, table, match=(), action=None, **fields):
        """A table entry; `match` are FieldMatch messages, `action` an Action or TableAction."""
        message = p4r.TableEntry(table_id=self.id(table), match=match, **fields)
        if isinstance(action, p4r.Action):
            message.action.action.CopyFrom(action)
        elif action is not None:
            message.action.CopyFrom(action)
        return message

    def _election(self):
        return None if self.election_id is None else p4r.Uint128(low=self.election_id)

    # ---- streams ----
    @contextmanager
    def stream_raw(self):
        """A StreamChannel that has said nothing yet."""
        stream = StreamClient(self.stub)
        try:
            yield stream
        finally:
            stream.close()

    @contextmanager
    def stream(self, election_id=None, role=None):
        """A StreamChannel that has introduced itself as primary (by default)."""
        stream = StreamClient(self.stub)
        try:
            message = p4r.MasterArbitrationUpdate(device_id=self.device_id)
            number = self.election_id if election_id is None else election_id
            message.election_id.low = number
            if role is not None:
                message.role.name = role
            stream.send(arbitration=message)
            stream.arbitration = stream.receive("arbitration")
            yield stream
        finally:
            stream.close()


class StreamClient:
    """One open StreamChannel."""

    def __init__(self, stub):
        self._out = _Requests()
        self.call = stub.StreamChannel(self._out)

    def send(self, **update):
        self._out.put(p4r.StreamMessageRequest(**update))

    def receive(self, kind):
        """The next message, which must be of this kind."""
        timer = threading.Timer(TIMEOUT, self.call.cancel)
        timer.start()
        try:
            message = next(self.call)
        finally:
            timer.cancel()
        assert message.WhichOneof("update") == kind, message
        return getattr(message, kind)

    def close(self):
        self._out.close()
        self.call.cancel()


class _Requests:
    """An iterator that a test feeds."""

    def __init__(self):
        self._messages = []
        self._changed = threading.Condition()
        self._closed = False

    def put(self, message):
        with self._changed:
            self._messages.append(message)
            self._changed.notify()

    def close(self):
        with self._changed:
            self._closed = True
            self._changed.notify()

    def __iter__(self):
        return self

    def __next__(self):
        with self._changed:
            self._changed.wait_for(lambda: self._messages or self._closed)
            if not self._messages:
                raise StopIteration
            return self._messages.pop(0)


def config_of(name, cookie=None):
    """The configuration of programs/NAME.p4."""
    json, p4info = compiled(name)
    message = p4r.ForwardingPipelineConfig(p4_device_config=json.read_bytes())
    text_format.Parse(p4info.read_text(), message.p4info)
    if cookie is not None:
        message.cookie.cookie = cookie
    return message


def data(value):
    """A canonical byte string."""
    if isinstance(value, bytes):
        return value
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def exact(field, value):
    return p4r.FieldMatch(field_id=field, exact=p4r.FieldMatch.Exact(value=data(value)))


def lpm(field, value, length):
    return p4r.FieldMatch(field_id=field, lpm=p4r.FieldMatch.LPM(value=data(value), prefix_len=length))


def ternary(field, value, mask):
    return p4r.FieldMatch(field_id=field, ternary=p4r.FieldMatch.Ternary(value=data(value), mask=data(mask)))


def range_(field, low, high):
    return p4r.FieldMatch(field_id=field, range=p4r.FieldMatch.Range(low=data(low), high=data(high)))


def optional(field, value):
    return p4r.FieldMatch(field_id=field, optional=p4r.FieldMatch.Optional(value=data(value)))


@contextmanager
def status():
    """Expect an RPC error; yields an object whose `code`, `message` and `errors` are its status."""
    seen = Status()
    try:
        yield seen
    except grpc.RpcError as error:
        seen.code = error.code()
        seen.message = error.details()
        seen.errors = errors_of(error)
    else:
        raise AssertionError("the call succeeded")


def errors_of(error):
    """The `p4.v1.Error` of each element of the batch, from the status details."""
    errors = []
    for key, value in error.trailing_metadata() or ():
        if key == STATUS_DETAILS_KEY:
            details = rpc_status.Status.FromString(value)
            assert details.code == error.code().value[0]
            assert details.message == error.details()
            for detail in details.details:
                errors.append(p4r.Error())
                assert detail.Unpack(errors[-1])
    return errors


class Status:
    def __init__(self):
        self.code = None
        self.message = ""
        self.errors = []

    @property
    def codes(self):
        """Canonical codes of the updates, in order."""
        return [error.canonical_code for error in self.errors]


def p4info_of(name) -> p4i.P4Info:
    """The P4Info of programs/NAME.p4."""
    return config_of(name).p4info


@contextmanager
def programmed(served, program):
    """A controller of a device that has just been given programs/PROGRAM.p4 anew."""
    client = Client(served.address)
    client.election_id = None
    client.set_config(config_of(program))
    yield client
    client.close()
