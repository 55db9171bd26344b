"""The standard small demo, and its records' hash as a golden value.

Run as `python -m tests.dynamics.golden FOLDER` it prints the hash. The value below is changed only on purpose: when the
P4 program, the NIC, the controller or the records are meant to behave differently; never because a machine was slow.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tests.dynamics.lab import run

DEMO: dict[str, Any] = {
    "name": "golden",
    "topology": "fattree:k=4",
    "workload": "allreduce:bytes=512KiB",
    "congestion_control": "dcqcn",
    "sample": "20us",
    "actions": [
        {"at": "15us", "pfc_storm": {"host": "h6", "duration": "20us", "quanta": 2000}},
        {"at": "30us", "lossy_link": {"switch": "e2", "towards": "a2", "p": 0.001, "seed": 3}},
    ],
}
RECORDS_SHA256 = "8879da4545f6fda9e7e659ab7c549e12fa1fcacb78a900b1dc077a5ae1334829"


if __name__ == "__main__":
    print(run(Path(sys.argv[1]), **DEMO).summary["records_sha256"])
