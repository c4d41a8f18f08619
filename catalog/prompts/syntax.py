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
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from core.errors import PromptRefused

#: Of a bracket without a number.
EMPHASIS: Final = 1.1
#: The largest weight, of either sign.
MAX_WEIGHT: Final = 10.0
#: Chunks of one prompt.
MAX_CHUNKS: Final = 8

_PIECE: Final = re.compile(
    r"\\(?P<escaped>[\\()\[\]])|(?P<open>[(\[])|:\s*(?P<weight>[+-]?[\d.]+)\s*\)|(?P<close>[)\]])"
    r"|(?P<text>[^\\()\[\]:]+|[\\:])"
)
_BREAK: Final = re.compile(r"\s*\bBREAK\b\s*")
_FOREIGN: Final = (
    (re.compile(r"\bAND\b"), "AND composes several prompts, which is not served: write 'and'"),
    (re.compile(r"<(lora|lyco|hypernet):"), "names an adapter: name LoRAs in the field 'loras'"),
)
_OPENED: Final = {")": "(", "]": "["}


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
    reader = _Reader()
    for piece in _PIECE.finditer(text):
        reader.take(piece)
    return reader.sections()


def num_chunks(tokens: Iterable[int], size: int) -> int:
    """Count the chunks of a prompt with so many tokens in each of its sections; it has one."""
    return max(1, sum(math.ceil(each / size) for each in tokens))


class _Reader:
    """What has been read so far; a text of None is a break."""

    def __init__(self) -> None:
        self._read: list[tuple[str | None, float]] = []
        self._open: list[tuple[str, int]] = []  #: brackets, and where each was opened

    def take(self, piece: re.Match[str]) -> None:
        """Read on."""
        if (opened := piece["open"]) is not None:
            self._open.append((opened, len(self._read)))
        elif piece["weight"] is not None and (at := self._close("(")) is not None:
            self._weigh(at, _number(piece["weight"]))
        elif (closed := piece["close"]) is not None and (
            at := self._close(_OPENED[closed])
        ) is not None:
            self._end(closed, at)
        elif piece["escaped"] is not None:
            self._read.append((piece["escaped"], 1.0))
        else:
            self._say(piece[0])

    def sections(self) -> Sections:
        """Give what was read; what was left open reaches to the end."""
        while self._open:
            bracket, at = self._open.pop()
            self._weigh(at, EMPHASIS if bracket == "(" else 1 / EMPHASIS)
        sections: list[list[WeightedPart]] = [[]]
        for text, weight in self._read:
            if text is None:
                sections.append([])
            elif sections[-1] and sections[-1][-1].weight == weight:
                sections[-1][-1] = WeightedPart(sections[-1][-1].text + text, weight)
            else:
                sections[-1].append(WeightedPart(text, weight))
        _check(part.weight for section in sections for part in section)
        return tuple(tuple(section) for section in sections)

    def _close(self, bracket: str) -> int | None:
        """Find where the last such bracket was opened, which is closed now."""
        for at in reversed(range(len(self._open))):
            if self._open[at][0] == bracket:
                return self._open.pop(at)[1]
        return None

    def _end(self, bracket: str, at: int) -> None:
        if bracket == ")":
            self._weigh(at, EMPHASIS)
            return
        if any(text is not None and re.search("[:|]", text) for text, _ in self._read[at:]):
            raise PromptRefused(
                "has ':' or '|' in square brackets, which changes prompts from step to step "
                "elsewhere and is not served: write (word:0.9) for a weight, or escape them"
            )
        self._weigh(at, 1 / EMPHASIS)

    def _say(self, text: str) -> None:
        first, *others = _BREAK.split(text)
        self._read.append((first, 1.0))
        for each in others:
            self._read += [(None, 1.0), (each, 1.0)]

    def _weigh(self, begin: int, weight: float) -> None:
        self._read[begin:] = [(text, each * weight) for text, each in self._read[begin:]]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise PromptRefused(f"has a weight that is no number: '{text}'") from None


def _check(weights: Iterable[float]) -> None:
    beyond = [weight for weight in weights if not abs(weight) <= MAX_WEIGHT]  # or no number
    if beyond:
        most = f"must be from {-MAX_WEIGHT:g} to {MAX_WEIGHT:g}"
        raise PromptRefused(f"has a weight of {beyond[0]:g}: what brackets multiply {most}")
