"""List what policies delivered over time, a row a stretch."""

from collections.abc import Mapping, Sequence

from reporting.files import Value
from simulator.outcome import PolicyOutcome
from simulator.report.charts import Named
from simulator.report.stretches import values


def rows_of(named: Named) -> list[Mapping[str, Value]]:
    """List every stretch of every policy, for CSV."""
    levels = sorted({level for outcome in named.values() for level in outcome.levels})
    models = sorted({model for outcome in named.values() for model in outcome.models})
    return [
        row for name, outcome in named.items() for row in _stretches(name, outcome, levels, models)
    ]


def _stretches(
    name: str, outcome: PolicyOutcome, levels: Sequence[str], models: Sequence[str]
) -> list[Mapping[str, Value]]:
    series = outcome.series
    columns: dict[str, Sequence[Value]] = {
        "at_s": values(series.begins_s),
        "demand": series.demand.tolist(),
        "done": series.done.tolist(),
        "late": series.late.tolist(),
        "quality": values(series.quality),
        "goodput": values(series.goodput),
        "loading": values(series.loading),
        "busy": values(series.busy),
    }
    zeros = [0] * len(series.demand)
    for level in levels:
        has = level in outcome.levels
        of_level = series.levels[:, outcome.levels.index(level)].tolist() if has else zeros
        columns[f"level {level}"] = of_level
    for model in models:
        has = model in outcome.models
        of_model = values(series.holding[:, outcome.models.index(model)]) if has else zeros
        columns[f"workers {model}"] = of_model
    names = ["policy", *columns]
    return [
        dict(zip(names, (name, *row), strict=True)) for row in zip(*columns.values(), strict=True)
    ]
