"""Write the answer to how many GPUs are needed for programs: as JSON, and as rows."""

import msgspec

from reporting.table import Interval
from simulator.sizing.answer import Sizing
from simulator.sizing.goal import FleetTrial, price_of
from simulator.sizing.page import level_shares


def machine(answer: Sizing) -> dict[str, object]:
    """Write the answer for programs."""
    best = answer.best
    return {
        "fleet": {k: n for k, n in best.fleet.items() if n} if best else None,
        "price_per_hour": answer.price,
        "cost_per_image": answer.image_cost,
        "late": msgspec.to_builtins(best.late) if best else None,
        "quality": msgspec.to_builtins(best.quality) if best else None,
        "goal": {**msgspec.to_builtins(answer.goal), "slo_s": answer.slo_s},
        "least_per_hour": answer.least,
        "levels": {
            level: {"share": share, "cost_per_image": answer.image_costs.get(level, {})}
            for level, share in (level_shares(best) if best else {}).items()
        },
        "tried": [tried(trial, answer) for trial in answer.trials],
        "untried": answer.untried,
        "reason": answer.reason or None,
        "would_help": list(answer.would_help),
    }


def tried(trial: FleetTrial, answer: Sizing) -> dict[str, object]:
    """Write a trial for programs."""
    return {
        "fleet": {kind: count for kind, count in trial.fleet.items() if count},
        "price_per_hour": price_of(trial.fleet, answer.prices),
        "days": len(trial.days),
        "late": msgspec.to_builtins(trial.late),
        "quality": msgspec.to_builtins(trial.quality),
        "keeps": trial.keeps,
        "verdict": trial.verdict.value,
    }


def rows_of(answer: Sizing) -> list[dict[str, str | float | int | None]]:
    """List what was tried, for CSV."""
    return [
        {
            **{f"workers {kind}": trial.fleet.get(kind, 0) for kind in answer.prices},
            "price_per_hour": price_of(trial.fleet, answer.prices),
            "days": len(trial.days),
            **_ends("late", trial.late),
            **_ends("quality", trial.quality),
            "verdict": trial.verdict.value,
        }
        for trial in answer.trials
    ]


def _ends(name: str, interval: Interval) -> dict[str, float]:
    return {
        f"{name}_low": interval.low,
        name: interval.middle,
        f"{name}_high": interval.high,
    }
