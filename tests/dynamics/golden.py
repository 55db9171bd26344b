"""The standard demo and a smaller run with failures, and the hashes of their records as golden values.

Run as `python -m tests.dynamics.golden NAME FOLDER` it prints a hash. The values below are changed only on purpose:
when the P4 program, the NIC, the controller or the records are meant to behave differently; never because a machine
was slow.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.dynamics.lab import run
from xoff.experiment import Experiment

DEFAULTS = Experiment()
RUNS: dict[str, dict[str, Any]] = {
    "demo": {
        key: getattr(DEFAULTS, key)
        for key in ("topology", "workload", "congestion_control", "sample", "time_limit")
    },
    "failures": {
        "topology": "fattree:k=4",
        "workload": "allreduce:bytes=512KiB",
        "congestion_control": "dcqcn",
        "sample": "20us",
        "actions": [
            {"at": "15us", "pfc_storm": {"host": "h6", "duration": "20us", "quanta": 2000}},
            {"at": "30us", "lossy_link": {"switch": "e2", "towards": "a2", "p": 0.001, "seed": 3}},
        ],
    },
}
RECORDS_SHA256 = {
    "demo": "8d986c432213a602c2c7654bf7cbd0e213acb69ff57c8757e99a34a45fea2a0f",
    "failures": "8879da4545f6fda9e7e659ab7c549e12fa1fcacb78a900b1dc077a5ae1334829",
}


if __name__ == "__main__":
    print(run(Path(sys.argv[2]), **RUNS[sys.argv[1]]).summary["records_sha256"])
