"""Write the report of outcomes into a folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from reporting.files import write
from simulator.outcome import PolicyOutcome
from simulator.report.charts import Named
from simulator.report.costs import Prices
from simulator.report.lay_out import lay_out
from simulator.report.rows import rows_of


def write_report(
    outcomes: Sequence[PolicyOutcome],
    folder: Path,
    *,
    run: Mapping[str, object],
    prices: Prices | None = None,
) -> list[Path]:
    """Write report.html, .png, .json and .csv.

    Args:
        run: what was simulated, to repeat it.
        prices: if given, images have costs.
    """
    named = names_of(outcomes)
    figures = {"run": run, "policies": [outcome.figures() for outcome in outcomes]}
    document = lay_out(named, run, prices)
    return write(document, folder, machine=figures, rows=rows_of(named))


def names_of(outcomes: Sequence[PolicyOutcome]) -> Named:
    """Name outcomes by their policies, and by seeds where a policy ran more than once."""
    policies = [outcome.policy for outcome in outcomes]
    return {
        each.policy
        if policies.count(each.policy) == 1
        else f"{each.policy}, seed {each.seed}": each
        for each in outcomes
    }
