"""Judge requests by their promise: late, on time, and how good what came was. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from loadgen.ask import TimedRequest
from loadgen.prompts import PromptSet
from loadgen.sample import ClientOutcome, RequestSample
from loadgen.target import Limits


def is_late(sample: RequestSample, slo_s: float) -> bool:
    """Whether a request did not become an image in time; one that was withdrawn is not late."""
    if sample.is_withdrawn:
        return False
    return sample.ending is not ClientOutcome.SUCCEEDED or sample.latency_s > slo_s


def kept(samples: Sequence[RequestSample]) -> list[RequestSample]:
    """Leave out what its own client withdrew."""
    return [sample for sample in samples if not sample.is_withdrawn]


def late_share(samples: Sequence[RequestSample], slo_s: float) -> float | None:
    """Count late requests, as a share; None of nothing."""
    asked = kept(samples)
    return sum(is_late(each, slo_s) for each in asked) / len(asked) if asked else None


def mean_quality(samples: Sequence[RequestSample]) -> float | None:
    """Average the quality of what came, where it is known; None if it is of none."""
    known = [each.quality for each in samples if each.quality is not None]
    return float(np.mean(known)) if known else None


def goodput(samples: Sequence[RequestSample], slo_s: float) -> float | None:
    """Sum the quality of requests on time, in all that were asked; late ones count nothing.

    An image of unknown quality counts one.
    """
    asked = kept(samples)
    worth = [
        1.0 if each.quality is None else each.quality for each in asked if not is_late(each, slo_s)
    ]
    return sum(worth) / len(asked) if asked else None


def judged(
    samples: Sequence[RequestSample], asks: Sequence[TimedRequest], prompts: PromptSet
) -> list[RequestSample]:
    """Note the quality of each image, where the prompts tell it at its level.

    Shapes: a sample for each of the first requests
    """
    rows = {text: row for row, text in enumerate(prompts.texts)}
    columns = {level: column for column, level in enumerate(prompts.levels)}
    pairs = zip(samples, asks[: len(samples)], strict=True)
    return [_judged(sample, ask.prompt, prompts, rows, columns) for sample, ask in pairs]


def _judged(
    sample: RequestSample,
    prompt: str,
    prompts: PromptSet,
    rows: Mapping[str, int],
    columns: Mapping[str, int],
) -> RequestSample:
    row, column = rows.get(prompt), columns.get(sample.level or "")
    if row is None or column is None or sample.ending is not ClientOutcome.SUCCEEDED:
        return sample
    quality = float(prompts.quality[row, column])
    return replace(sample, quality=None if np.isnan(quality) else quality)


def broken(limits: Limits, *, late: float | None, worth: float | None) -> list[str]:
    """Say which limits were broken; nothing asked breaks none."""
    said = []
    if limits.max_late is not None and late is not None and late > limits.max_late:
        said.append(f"{late:.2%} were late, more than --max-late {limits.max_late:.2%}")
    if limits.min_goodput is not None and worth is not None and worth < limits.min_goodput:
        said.append(f"goodput was {worth:.4f}, less than --min-goodput {limits.min_goodput:g}")
    return said
