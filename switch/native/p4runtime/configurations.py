"""A device's forwarding pipeline configurations: verified, saved, committed, reconciled, told.

Everything here runs on the event loop's thread, except reading and compiling a program, which a worker thread
does for all devices in turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from finsy.proto import p4r

from switch.native.binding import Engine, EngineError
from switch.native.build import BuildError
from switch.native.p4runtime.config import Config, read_config
from switch.native.p4runtime.errors import (
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    BatchError,
    P4RuntimeError,
)
from switch.native.p4runtime.pipeline import Pipeline, from_engine
from switch.native.p4runtime.portmap import PortMap
from switch.native.p4runtime.replication import Replication
from switch.native.program import ProgramError

_ArgT = TypeVar("_ArgT")
_ResultT = TypeVar("_ResultT")

_Action = p4r.SetForwardingPipelineConfigRequest

_builder = ThreadPoolExecutor(max_workers=1, thread_name_prefix="xoff-build")
"""Reads and compiles programs: in turn, so that equal programs are compiled once."""

_verified: set[bytes] = set()
"""Digests of configurations that were realised once, so that committing them again cannot fail half-way."""


class Configurations:
    """The configuration that runs and the one that was saved. Whoever calls holds the device's lock."""

    def __init__(self, engine: Engine, ports: PortMap, replication: Replication) -> None:
        self._engine = engine
        self._ports = ports
        self._replication = replication
        self.running: Pipeline | None = None
        self.saved: Pipeline | None = None
        """Not committed: in an engine of its own without ports."""
        self.changing = False
        """The engine is being given another program: `running` is of the one before."""

    @property
    def present(self) -> Pipeline:
        """The pipeline that requests refer to; raises P4RuntimeError when none is set."""
        pipeline = self.saved or self.running
        if pipeline is None:
            raise P4RuntimeError(
                FAILED_PRECONDITION, "no forwarding pipeline is set; send SetForwardingPipelineConfig first"
            )
        return pipeline

    async def load(self, message: p4r.ForwardingPipelineConfig) -> None:
        """Run a program from the start; raises P4RuntimeError."""
        await self._commit(await self._in_builder(read_config, message))

    async def set(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        """SetForwardingPipelineConfig; raises P4RuntimeError."""
        action = request.action
        if action == _Action.COMMIT:
            await self._commit_saved(request)
            return
        if action not in (
            _Action.VERIFY,
            _Action.VERIFY_AND_SAVE,
            _Action.VERIFY_AND_COMMIT,
            _Action.RECONCILE_AND_COMMIT,
        ):
            raise P4RuntimeError(INVALID_ARGUMENT, "the action must be VERIFY, COMMIT or one of their pairs")
        if not request.HasField("config"):
            raise P4RuntimeError(INVALID_ARGUMENT, "the request has no config")
        config = await self._in_builder(read_config, request.config)
        if action == _Action.RECONCILE_AND_COMMIT and self.running is not None:
            if config.digest == self.running.config.digest:
                self.running.config = config
                return
            await self._shadow(config, self.running)
            await self._commit(config, self.running)
        elif action in (_Action.VERIFY_AND_COMMIT, _Action.RECONCILE_AND_COMMIT):
            if config.digest not in _verified:
                await self._shadow(config)
            await self._commit(config)
        else:
            shadow = await self._shadow(config)
            if action == _Action.VERIFY_AND_SAVE:
                self.saved = shadow

    def get(self, kind: int) -> p4r.ForwardingPipelineConfig | None:
        """What a response of this kind tells of the present configuration, None without one."""
        pipeline = self.saved or self.running
        if pipeline is None:
            return None
        message = pipeline.config.message
        answer = p4r.ForwardingPipelineConfig()
        if message.HasField("cookie"):
            answer.cookie.CopyFrom(message.cookie)
        kinds = p4r.GetForwardingPipelineConfigRequest
        if kind in (kinds.ALL, kinds.P4INFO_AND_COOKIE):
            answer.p4info.CopyFrom(message.p4info)
        if kind in (kinds.ALL, kinds.DEVICE_CONFIG_AND_COOKIE):
            answer.p4_device_config = message.p4_device_config
        return answer

    async def settle(self) -> None:
        """Wait until no worker thread uses the engine any more; no request may be running."""
        await asyncio.get_running_loop().run_in_executor(_builder, lambda: None)

    async def _commit(self, config: Config, state: Pipeline | None = None) -> None:
        """Run `config`, with the state that `state` has then; raises P4RuntimeError."""
        try:
            updates = None if state is None else state.export()
            self.changing = True
            await self._in_builder(self._engine.set_pipeline, config.program)
            self._replication.clear()
            self.running = None
            pipeline = Pipeline(config, self._engine, self._ports, self._replication)
            if updates is not None:
                pipeline.restore(updates)
        except EngineError as error:
            raise from_engine(error) from error
        finally:
            self.changing = False
        self.running = pipeline
        self.saved = None

    async def _commit_saved(self, request: p4r.SetForwardingPipelineConfigRequest) -> None:
        if request.HasField("config"):
            raise P4RuntimeError(INVALID_ARGUMENT, "COMMIT takes no config; it commits the saved one")
        if self.saved is None:
            raise P4RuntimeError(NOT_FOUND, "no configuration was saved; use VERIFY_AND_SAVE first")
        await self._commit(self.saved.config, self.saved)

    async def _shadow(self, config: Config, state: Pipeline | None = None) -> Pipeline:
        """The configuration in an engine that no port leads to, with what `state` holds.

        Raises P4RuntimeError(INVALID_ARGUMENT) when it cannot be realised or an update does not fit it.
        """
        engine = await self._in_builder(self._shadow_engine, config)
        try:
            pipeline = Pipeline(config, engine, self._ports, Replication(engine, self._ports))
            if state is not None:
                pipeline.restore(state.export())
        except BatchError as error:
            first = next(result for result in error.results if result is not None)
            raise P4RuntimeError(
                INVALID_ARGUMENT, f"the present entries do not fit the new program: {first.message}"
            ) from error
        except EngineError as error:
            raise from_engine(error) from error
        _verified.add(config.digest)
        return pipeline

    def _shadow_engine(self, config: Config) -> Engine:
        return Engine(
            config.program,
            device_id=self._engine.device_id,
            cpu_port=self._engine.cpu_port,
            drop_port=self._engine.drop_port,
            timestamp_hz=self._engine.timestamp_hz,
            priority_queues=self._engine.priority_queues,
        )

    @staticmethod
    async def _in_builder(function: Callable[[_ArgT], _ResultT], argument: _ArgT) -> _ResultT:
        """Run in the builder's thread; a program that cannot be built is INVALID_ARGUMENT."""
        try:
            return await asyncio.get_running_loop().run_in_executor(_builder, function, argument)
        except BuildError as error:
            raise P4RuntimeError(INVALID_ARGUMENT, f"the program cannot be compiled: {error}") from error
        except ProgramError as error:
            raise P4RuntimeError(INVALID_ARGUMENT, f"p4_device_config: {error}") from error
        except EngineError as error:
            raise from_engine(error) from error
