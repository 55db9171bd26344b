"""From an experiment to what will be built: topology, plan, workload, program. Touches neither network nor clock."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import networkx as nx

from compiler.cache import cache_folder
from compiler.driver import Compiled, compile_cached
from controller.app import ProgramFiles
from topologies.cycles import check_deadlock
from topologies.hpcc_file import read_hpcc_topology
from topologies.plan import CLASSES, FabricPlan, IntPolicy
from topologies.planning import PlanOptions, make_plan
from topologies.policies import PolicyOptions
from topologies.routes import RouteOverride
from topologies.spec import FAMILIES, topology_from_spec
from topologies.summary import summarise
from xoff.errors import XoffError
from xoff.experiment import Experiment
from xoff.units import format_rate

REPOSITORY = Path(__file__).resolve().parent.parent
FABRIC_P4 = REPOSITORY / "p4src" / "fabric.p4"


def build_topology(experiment: Experiment) -> nx.MultiGraph:
    """The graph of an experiment's topology; generated ones get the experiment's rate and delay unless they say."""
    spec = experiment.topology
    if isinstance(spec, dict):
        named = {"rate": experiment.rate, "delay": experiment.delay, **spec}
        return topology_from_spec(spec if "file" in spec else named)
    if spec.endswith(".txt"):
        return read_hpcc_topology(Path(spec))
    family, _, body = spec.strip().partition(":")
    if family.lower() not in FAMILIES:
        return topology_from_spec(spec)
    given = {pair.partition("=")[0].strip() for pair in body.split(",")}
    added = [
        f"{k}={v}" for k, v in (("rate", experiment.rate), ("delay", experiment.delay)) if k not in given
    ]
    return topology_from_spec(f"{family}:{','.join(filter(None, [body, *added]))}")


def build_plan(experiment: Experiment) -> FabricPlan:
    """The plan of an experiment. TopologyError or XoffError when the experiment asks for what cannot be."""
    classes: dict[int, dict[str, Any]] = {}
    for cls, change in experiment.classes.items():
        if str(cls) not in map(str, range(CLASSES)) or not isinstance(change, dict):
            raise XoffError(
                f"classes: write it as {{3: {{xoff_bytes: 40000}}}}, a class being 0 to {CLASSES - 1}, "
                f"not {{{cls}: {change!r:.60}}}."
            )
        classes[int(cls)] = change
    options = PlanOptions(
        name=experiment.topology if isinstance(experiment.topology, str) else None,
        load_balancing=experiment.balancing.mode,
        weighted_paths=experiment.wcmp,
        telemetry=IntPolicy(mode=_telemetry(experiment)),  # type: ignore[arg-type]
        time_scale=experiment.scale,
        mtu=experiment.mtu,
        seed=experiment.seed,
        policies=PolicyOptions(
            pfc=experiment.pfc,
            ecn=experiment.ecn_preset if experiment.ecn else "off",
            extra_headroom_bytes=_lateness_bytes(experiment),
        ),
        classes=classes,
        routes=tuple(RouteOverride.parse(str(text)) for text in experiment.routes),
    )
    return make_plan(build_topology(experiment), options)


LATENESS_NS = 100e6
"""How late the processes at a link's two ends may wake between them on a busy machine, wall ns: Mininet's headroom
covers a link's bytes for so long."""


def _lateness_bytes(experiment: Experiment) -> int:
    from xoff.units import parse_rate

    if experiment.clock == "virtual":
        return 0
    return round(parse_rate(experiment.rate) / experiment.time_scale / 8 * LATENESS_NS / 1e9)


def _telemetry(experiment: Experiment) -> str:
    """HPCC needs telemetry from every hop, so it turns the hosts' on."""
    if experiment.congestion_control.partition(":")[0] == "hpcc" and experiment.telemetry == "off":
        return "host"
    return experiment.telemetry


def describe_topology(spec: str, rate: str = "100Gbps") -> dict[str, Any]:
    """What `xoff topo` says: the summary's figures and the deadlock check of the default routes and classes."""
    experiment = Experiment(topology=spec, rate=rate)
    graph = build_topology(experiment)
    facts: dict[str, Any] = asdict(summarise(graph))
    facts["bisection"] = format_rate(facts["bisection_bps"])
    plan = build_plan(experiment)
    facts["deadlock"] = str(check_deadlock(plan))
    return facts


@dataclass(frozen=True)
class Program:
    """A compiled P4 program."""

    name: str
    compiled: Compiled
    seconds: float
    """What compiling (or finding it in the cache) took."""

    def write(self, folder: Path) -> ProgramFiles:
        """Write `NAME.json` and `NAME.p4info.txtpb` into a folder that is made."""
        folder.mkdir(parents=True, exist_ok=True)
        files = ProgramFiles(folder / f"{self.name}.json", folder / f"{self.name}.p4info.txtpb")
        files.json.write_text(json.dumps(self.compiled.json, indent=1))
        files.p4info.write_text(self.compiled.p4info)
        return files


def compile_program(experiment: Experiment) -> Program:
    """Compile the experiment's P4 program, or find it in the cache. CompileError shows what is wrong in it."""
    source = Path(experiment.program) if experiment.program else FABRIC_P4
    if "\0" in str(source) or not source.is_file():
        raise XoffError(f"program: there is no file {str(source)!r}.")
    begun = time.perf_counter()
    compiled = compile_cached(source, cache_folder() / "programs")
    return Program(source.stem, compiled, round(time.perf_counter() - begun, 3))
