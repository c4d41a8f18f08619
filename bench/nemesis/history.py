"""What clients asked for and were answered, in order: plain data for the checker."""

from dataclasses import dataclass, field
from enum import StrEnum

from core.job import JobStatus


class Verb(StrEnum):
    """What a client does."""

    SUBMIT = "submit"
    READ = "read"
    CANCEL = "cancel"
    DELETE = "delete"


class Answer(StrEnum):
    """What became of it, as far as the client knows."""

    OK = "ok"
    REFUSED = "refused"  #: nothing was done, and the client was told so
    UNKNOWN = "unknown"  #: no answer: it may have been done
    WRONG = "wrong"  #: an answer that no client should ever see


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One request of a client."""

    verb: Verb
    job: str  #: the key that its client gave it, or its id
    began: float
    ended: float
    answer: Answer
    job_id: str = ""  #: of the answer
    status: JobStatus | None = None  #: of the answer
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """What a job asks for: of equal ones, equal images."""

    seed: int
    steps: int


#: What clients ask for, again and again: few, so that each is known undisturbed.
PICTURES = tuple(Picture(seed=seed, steps=steps) for seed in (1, 2, 3) for steps in (5, 20, 60))


@dataclass(slots=True)
class History:
    """All operations, and what each key asked for."""

    operations: list[Operation] = field(default_factory=list)
    asked: dict[str, Picture] = field(default_factory=dict)  #: by the client's key

    def of(self, verb: Verb, answer: Answer = Answer.OK) -> list[Operation]:
        """List what was done with that answer."""
        return [each for each in self.operations if (each.verb, each.answer) == (verb, answer)]

    @property
    def accepted(self) -> dict[str, str]:
        """Name the jobs that the service has promised: id -> the client's key."""
        return {each.job_id: each.job for each in self.of(Verb.SUBMIT)}
