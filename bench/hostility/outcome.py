"""Judge what became of one input: at whose fault it failed, what it was told, what came back."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from bench.hostility.client import Answer
from bench.hostility.input import Input

#: Bytes that are looked for in what was sent; shorter ones are alike by chance.
WINDOW = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one input."""

    sent: Input
    answers: Sequence[Answer]
    began: float  #: monotonic
    ended: float
    echoed: int  #: bytes of what was sent that a refusal repeats, at most
    grown_mib: float = 0.0  #: memory of the api and its processes, at most, beyond that before it

    @property
    def is_failed(self) -> bool:
        """The api was at fault."""
        return any(each.status >= 500 for each in self.answers)

    @property
    def is_unnamed(self) -> bool:
        """A refusal did not say why, what must be refused was taken, or there was no answer."""
        return any(not self._is_told(each) for each in self.answers)

    @property
    def statuses(self) -> str:
        """The statuses, each once."""
        return " ".join(sorted({str(each.status or "-") for each in self.answers}))

    def told(self) -> str:
        """Say it in a line, and what was answered if that was wrong."""
        took = self.ended - self.began
        line = f"{self.sent.kind:12} {self.sent.name[:60]:60} {self.statuses:12} {took:6.2f} s"
        if not self.is_failed and not self.is_unnamed:
            return line
        wrong = next((each.text for each in self.answers if not self._is_told(each)), "")
        return f"{line} WRONG: {wrong[-300:] or 'no answer'}"

    def _is_told(self, answer: Answer) -> bool:
        if answer.status == 0:
            return self.sent.is_cut
        if answer.status == 429:  # of a service that is full: it says of what
            return any(each in answer.text for each in ("at most", "in all", "wrong keys"))
        if answer.status < 400:
            return not self.sent.is_refused
        return self.sent.says in answer.text and (_is_problem(answer) or _has_no_body(answer))


def echo_of(sent: bytes, answers: Sequence[Answer]) -> int:
    """Count the bytes of a request that its refusal repeats, of the one that repeats most."""
    refusals = {each.text for each in answers if each.status >= 400}
    return max((_repeated(sent, text.partition("\r\n\r\n")[2].encode()) for text in refusals),
               default=0)  # fmt: skip


def _repeated(sent: bytes, body: bytes) -> int:
    windows = (body[at : at + WINDOW] for at in range(0, len(body) - WINDOW, WINDOW))
    return sum(WINDOW for each in windows if each in sent)


def _is_problem(answer: Answer) -> bool:
    head, _, body = answer.text.partition("\r\n\r\n")
    try:
        said = json.loads(body)
    except ValueError:
        return False
    return "json" in head and isinstance(said, dict) and bool({"detail", "error"} & said.keys())


def _has_no_body(answer: Answer) -> bool:
    return not answer.text.partition("\r\n\r\n")[2]
