"""Meter configurations: P4Runtime's message checked against the meter's type, and the engine's four numbers."""

from __future__ import annotations

from finsy.proto import p4i, p4r

from switch.native.p4runtime.errors import INVALID_ARGUMENT, P4RuntimeError


def check_config(config: p4r.MeterConfig, spec: p4i.MeterSpec, where: str) -> None:
    """Raises P4RuntimeError when the meter cannot have this configuration (P4Runtime, "MeterEntry")."""
    for name in ("cir", "cburst", "pir", "pburst", "eburst"):
        if getattr(config, name) < 0:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: {name} is negative")
    if spec.type == p4i.MeterSpec.TWO_RATE_THREE_COLOR:
        if config.eburst:
            raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: a two-rate meter has no eburst")
        if config.pir < config.cir:
            raise P4RuntimeError(
                INVALID_ARGUMENT,
                f"{where}: the peak rate {config.pir} is below the committed rate {config.cir}",
            )
    elif config.pir != config.cir or config.pburst != config.cburst:
        raise P4RuntimeError(
            INVALID_ARGUMENT, f"{where}: a single-rate meter has pir = cir and pburst = cburst"
        )
    elif spec.type == p4i.MeterSpec.SINGLE_RATE_TWO_COLOR and config.eburst:
        raise P4RuntimeError(INVALID_ARGUMENT, f"{where}: a two-colour meter has no eburst")
    elif config.eburst:
        raise P4RuntimeError(
            INVALID_ARGUMENT, f"{where}: v1model's meters have two rates; an excess burst cannot be kept"
        )


def rates_of(config: p4r.MeterConfig) -> tuple[int, int, int, int]:
    """(cir, cburst, pir, pburst) in units per second and units."""
    return config.cir, config.cburst, config.pir, config.pburst
