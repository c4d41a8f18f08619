"""Parse weights and breaks as other front ends write them: (word:1.3), [word], BREAK. Pure.

    (word)       weighs 1.1 times as much; brackets within brackets multiply
    [word]       weighs 1 / 1.1 times as much
    (word:1.3)   weighs 1.3 times as much
    BREAK        what follows begins a new chunk
    \\( \\) \\[ \\] \\\\   the character itself

A bracket that is never closed reaches to the end; one that was never opened is a character. What
other front ends read into square brackets, `AND` and `<lora:...>` beside that is refused.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.errors import PromptRefused

#: Of a bracket without a number.
EMPHASIS: Final = 1.1
#: The largest weight, of either sign.
MAX_WEIGHT: Final = 10.0
#: Chunks of one prompt.
MAX_CHUNKS: Final = 8
#: Parts of one prompt that weigh otherwise than those beside them: the tokens of each are counted.
MAX_PARTS: Final = 256

_PIECE: Final = re.compile(
    r"\\(?P<escaped>[\\()\[\]])|(?P<open>[(\[])|:\s*(?P<weight>[+-]?[\d.]+)\s*\)|(?P<close>[)\]])"
    r"|(?P<text>[^\\()\[\]:]+|[\\:])"
)
_BREAK: Final = re.compile(r"\bBREAK\b")
_FOREIGN: Final = (
    (re.compile(r"\bAND\b"), "AND composes several prompts, which is not served: write 'and'"),
    (re.compile(r"<(lora|lyco|hypernet):"), "names an adapter: name LoRAs in the field 'loras'"),
)
_OPENED: Final = {")": "(", "]": "["}
_STEP_BY_STEP: Final = re.compile("[:|]")


@dataclass(frozen=True, slots=True)
class WeightedPart:
    """Some of a prompt, all of one weight."""

    text: str
    weight: float = 1.0


#: Parts of a prompt between its breaks.
Sections = tuple[tuple[WeightedPart, ...], ...]


def plain(text: str) -> Sections:
    """Take a prompt letter for letter."""
    return ((WeightedPart(text),),)


def parse(text: str) -> Sections:
    """Read the weights and breaks of a prompt.

    Raises: PromptRefused saying what it says that means nothing here.
    """
    for pattern, reason in _FOREIGN:
        if pattern.search(text):
            raise PromptRefused(reason)
    reader = _Reader(len(text))
    for piece in _PIECE.finditer(text):
        reader.take(piece)
    return reader.sections()


def num_chunks(tokens: Iterable[int], size: int) -> int:
    """Count the chunks of a prompt with so many tokens in each of its sections; it has one."""
    return max(1, sum(math.ceil(each / size) for each in tokens))


class _Reader:
    """What has been read so far; a text of None is a break.

    Time is linear in what is read, but for products of weights, which numpy makes in rows.
    """

    def __init__(self, most: int) -> None:
        """Begin; `most` characters will come."""
        self._texts: list[str | None] = []
        self._weights = np.ones(most + 1)
        #: Brackets that are open: where each was opened, and as which of all.
        self._open: dict[str, list[tuple[int, int]]] = {"(": [], "[": []}
        self._num_opened = 0
        self._marked = -1  #: the last text with a mark that changes prompts from step to step

    def take(self, piece: re.Match[str]) -> None:
        """Read on."""
        if (opened := piece["open"]) is not None:
            self._open[opened].append((len(self._texts), self._num_opened))
            self._num_opened += 1
        elif piece["weight"] is not None and self._open["("]:
            self._weigh(self._open["("].pop()[0], _number(piece["weight"]))
        elif (closed := piece["close"]) is not None and self._open[_OPENED[closed]]:
            self._end(closed, self._open[_OPENED[closed]].pop()[0])
        elif piece["escaped"] is not None:
            self._add(piece["escaped"])
        else:
            self._say(piece[0])

    def sections(self) -> Sections:
        """Give what was read; what was left open reaches to the end."""
        left = [(number, at, kind) for kind, each in self._open.items() for at, number in each]
        for _, begin, bracket in sorted(left, reverse=True):  # inner ones first
            self._weigh(begin, EMPHASIS if bracket == "(" else 1 / EMPHASIS)
        sections: list[list[WeightedPart]] = [[]]
        for text, weight in zip(self._texts, self._weights.tolist(), strict=False):
            if text is None:
                sections.append([])
            elif sections[-1] and sections[-1][-1].weight == weight:
                sections[-1][-1] = WeightedPart(sections[-1][-1].text + text, weight)
            else:
                sections[-1].append(WeightedPart(text, weight))
        _check([part.weight for section in sections for part in section])
        return tuple(tuple(section) for section in sections)

    def _end(self, bracket: str, begin: int) -> None:
        if bracket == ")":
            self._weigh(begin, EMPHASIS)
            return
        if self._marked >= begin:
            raise PromptRefused(
                "has ':' or '|' in square brackets, which changes prompts from step to step "
                "elsewhere and is not served: write (word:0.9) for a weight, or escape them"
            )
        self._weigh(begin, 1 / EMPHASIS)

    def _say(self, text: str) -> None:
        *before, last = _BREAK.split(text)
        for number, each in enumerate(before):  # spaces beside a break are the break's
            self._add(each.strip() if number else each.rstrip())
            self._add(None)
        self._add(last.lstrip() if before else last)

    def _add(self, text: str | None) -> None:
        if text is not None and _STEP_BY_STEP.search(text):
            self._marked = len(self._texts)
        self._texts.append(text)

    def _weigh(self, begin: int, weight: float) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # `_check` says so
            self._weights[begin : len(self._texts)] *= weight


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PromptRefused(f"has a weight that is no number: '{text}'") from None


def _check(weights: Sequence[float]) -> None:
    if len(weights) > MAX_PARTS:
        raise PromptRefused(f"has {len(weights)} parts of different weights: at most {MAX_PARTS}")
    beyond = [weight for weight in weights if not abs(weight) <= MAX_WEIGHT]  # or no number
    if beyond:
        most = f"must be from {-MAX_WEIGHT:g} to {MAX_WEIGHT:g}"
        raise PromptRefused(f"has a weight of {beyond[0]:g}: what brackets multiply {most}")
