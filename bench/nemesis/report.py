"""What trials found, as rows and figures: violations of all, recovery of each kind."""

from collections import Counter
from collections.abc import Sequence

from bench.nemesis.checker import WORDS
from bench.nemesis.trial import Result
from bench.parts.report import Figure, at_most, percentile, plain

#: Violations that a row of the table tells in full.
SHOWN = 3


def row_of(result: Result) -> tuple[str, str, str, str, str]:
    """Lay out one trial: its kind, seed, jobs, what went wrong, and its recovery."""
    counts = Counter(each.what for each in result.violations)
    wrong = [f"{number} {word}" for word, number in counts.items()]
    told = f"nothing, but {result.stated} as docs tell" if result.stated else "nothing"
    wrong += [f"{each.what} {each.job}: {each.detail}" for each in result.violations[:SHOWN]]
    return (
        result.kind.name,
        str(result.seed),
        str(result.accepted),
        "\n".join(wrong) or told,
        f"{result.recovery_s:.1f} s",
    )


def figures_of(results: Sequence[Result]) -> dict[str, Figure]:
    """Lay what all found beside what was promised."""
    if not results:
        return {}
    counts = Counter(each.what for result in results for each in result.violations)
    found = {
        "kinds": plain(len({result.kind.name for result in results}), ""),
        "kinds: accepted": plain(sum(result.accepted for result in results), ""),
        "kinds: taken back as docs tell": plain(sum(result.stated for result in results), ""),
        **{f"kinds: {word}": at_most(counts[word], 0, "") for word in WORDS},
    }
    for kind in dict.fromkeys(result.kind for result in results):
        times = [result.recovery_s for result in results if result.kind is kind]
        recovery = at_most(percentile(times, 0.95), kind.recovers_s, "s")
        found[f"{kind.name}: recovery, p95"] = recovery
    return found
