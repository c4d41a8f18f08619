"""Hold a history against what the service says in the end. Pure.

Every job that was accepted ends exactly once, with the image that nobody disturbed; nothing is
lost, made twice, taken back or left behind.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from bench.nemesis.history import Answer, History, Picture, Verb
from core.job import JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What the service has of one job in the end."""

    status: JobStatus
    finishes: int  #: how often it moved to a terminal status
    image: str  #: the digest of the bytes that its owner gets; empty if there are none
    told: Collection[JobStatus]  #: how webhooks said that it had ended
    is_current: bool = True  #: its image is that of its last claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One thing that must not be."""

    what: str  #: one of the words of `WORDS`
    job: str
    detail: str = ""


#: Every kind of violation. `check` finds all but the last two.
WORDS = (
    "lost",
    "twice",
    "stuck",
    "failed",
    "stale",
    "untold",
    "broken",
    "taken back",
    "wrong answer",
    "contradiction",  #: between records, indexes and lists
    "exit",  #: of a process that nobody ended
)


def check(
    history: History, records: Mapping[str, Ended], expected: Mapping[Picture, str]
) -> list[Violation]:
    """List all violations. `records`: every job that the service knows of this client's."""
    deleted = {each.job for each in history.of(Verb.DELETE)}
    asked_to_stop = {each.job for each in history.operations if each.verb is Verb.CANCEL}
    asked_to_stop |= {each.job for each in history.operations if each.verb is Verb.DELETE}
    found = [*_keys(history, records), *_reads(history, records), *_answers(history)]
    for job_id, key in history.accepted.items():
        record = records.get(job_id)
        if job_id in deleted:
            if record is not None:
                found.append(Violation(what="taken back", job=job_id, detail="deleted, and there"))
        elif record is None:
            found.append(Violation(what="lost", job=job_id))
        else:
            may_stop = job_id in asked_to_stop
            found += _ended(job_id, record, expected[history.asked[key]], may_stop=may_stop)
    return found


def _keys(history: History, records: Mapping[str, Ended]) -> list[Violation]:
    """One key is one job, and no job is there that nobody asked for."""
    ids: dict[str, set[str]] = {}
    for each in history.of(Verb.SUBMIT):
        ids.setdefault(each.job, set()).add(each.job_id)
    twice = [
        Violation(what="twice", job=key, detail=f"one key, {len(jobs)} jobs")
        for key, jobs in ids.items()
        if len(jobs) > 1
    ]
    open_keys = {each.job for each in history.operations if each.verb is Verb.SUBMIT} - ids.keys()
    strangers = set(records) - set(history.accepted)
    if len(strangers) > len(open_keys):
        twice.append(Violation(what="twice", job=min(strangers), detail="nobody asked for it"))
    return twice


def _ended(job_id: str, record: Ended, image: str, *, may_stop: bool) -> list[Violation]:
    """One job that was accepted and not deleted ended once, and well."""

    def wrong(what: str, detail: str = "") -> list[Violation]:
        return [Violation(what=what, job=job_id, detail=detail)]

    if not record.status.is_terminal:
        return wrong("stuck", record.status)
    found = wrong("twice", f"{record.finishes} ends") if record.finishes != 1 else []
    if record.status is JobStatus.SUCCEEDED:
        if not record.is_current:
            found += wrong("stale", "the image of an earlier claim")
        if record.image != image:
            found += wrong("broken", f"{record.image or 'no image'} instead of {image}")
        if record.told and record.status not in record.told:
            found += wrong("stale", f"a webhook said {sorted(record.told)}")
    elif not (may_stop and record.status is JobStatus.CANCELED):
        found += wrong("failed", record.status)
    return found if record.told else [*found, *wrong("untold")]


def _reads(history: History, records: Mapping[str, Ended]) -> list[Violation]:
    """What a client has seen ended stays as it ended, for whoever asks after that."""
    ended: dict[str, tuple[float, JobStatus]] = {}
    found = list[Violation]()
    for each in sorted(history.operations, key=lambda operation: operation.ended):
        if each.answer is not Answer.OK or each.status is None:
            continue
        at, before = ended.get(each.job_id, (each.began, each.status))
        if at < each.began and before is not each.status:
            found.append(
                Violation(what="taken back", job=each.job_id, detail=f"{before}, {each.status}")
            )
        if each.status.is_terminal:
            ended.setdefault(each.job_id, (each.ended, each.status))
    for job_id, (_, status) in ended.items():
        last = records[job_id].status if job_id in records else status
        if last is not status:
            found.append(Violation(what="taken back", job=job_id, detail=f"{status}, {last}"))
    return found


def _answers(history: History) -> list[Violation]:
    return [
        Violation(what="wrong answer", job=each.job, detail=f"{each.verb}: {each.detail}")
        for each in history.operations
        if each.answer is Answer.WRONG
    ]
