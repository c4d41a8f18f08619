"""The checker of a client's history finds what must not be, and nothing else."""

from dataclasses import replace

import pytest

from bench.nemesis.checker import Ended, check
from bench.nemesis.history import Answer, History, Operation, Picture, Verb
from core.job import JobStatus

PICTURE = Picture(seed=1, steps=5)
EXPECTED = {PICTURE: "right"}
GOOD = Ended(status=JobStatus.SUCCEEDED, finishes=1, image="right", told={JobStatus.SUCCEEDED})


def operation(verb, job, at, answer=Answer.OK, status=None, job_id=""):
    return Operation(
        verb=verb, job=job, began=at, ended=at + 0.5, answer=answer, job_id=job_id, status=status
    )


def submitted(key="k", job_id="j", at=0.0, answer=Answer.OK):
    return operation(Verb.SUBMIT, key, at, answer, JobStatus.QUEUED, job_id)


def read(status, at, job_id="j"):
    return operation(Verb.READ, job_id, at, status=status, job_id=job_id)


def asked(verb, at=1.0, answer=Answer.OK, status=None):
    return operation(verb, "j", at, answer, status, "j")


def found(*operations, **records):
    history = History(operations=[*operations], asked={each.job: PICTURE for each in operations})
    return [each.what for each in check(history, records, EXPECTED)]


def test_a_job_that_ends_once_with_its_image_is_right():
    assert found(submitted(), read(JobStatus.RUNNING, 1), j=GOOD) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"status": JobStatus.RUNNING}, "stuck"),
        ({"status": JobStatus.FAILED}, "failed"),
        ({"status": JobStatus.CANCELED}, "failed"),
        ({"status": JobStatus.EXPIRED}, "failed"),
        ({"finishes": 2}, "twice"),
        ({"finishes": 0}, "twice"),
        ({"image": "another"}, "broken"),
        ({"image": ""}, "broken"),
        ({"is_current": False}, "stale"),
        ({"told": ()}, "untold"),
        ({"told": {JobStatus.FAILED}}, "stale"),
    ],
)
def test_what_is_wrong_with_one_job_is_named(change, what):
    assert found(submitted(), j=replace(GOOD, **change)) == [what]


def test_a_job_without_a_record_is_lost():
    assert found(submitted()) == ["lost"]


def test_one_key_is_one_job():
    both = submitted(), submitted(job_id="other", at=1.0)
    assert found(*both, j=GOOD, other=GOOD) == ["twice"]


def test_the_same_answer_twice_is_no_second_job():
    assert found(submitted(), submitted(at=1.0), j=GOOD) == []


def test_a_job_that_nobody_asked_for_is_one_too_many():
    assert found(submitted(), j=GOOD, stranger=GOOD) == ["twice"]


def test_a_request_without_an_answer_may_have_become_a_job():
    unknown = submitted("other", "", answer=Answer.UNKNOWN)
    assert found(submitted(), unknown, j=GOOD, stranger=GOOD) == []
    assert found(submitted(), unknown, j=GOOD) == []
    assert found(submitted(), unknown, j=GOOD, stranger=GOOD, another=GOOD) == ["twice"]


@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        (Verb.CANCEL, Answer.OK),
        (Verb.CANCEL, Answer.UNKNOWN),
        (Verb.DELETE, Answer.UNKNOWN),
    ],
)
def test_who_asks_for_it_may_see_a_job_cancelled_or_made(verb, answer):
    for record in (replace(GOOD, status=JobStatus.CANCELED), GOOD):
        assert found(submitted(), asked(verb, answer=answer), j=record) == []
    failed = replace(GOOD, status=JobStatus.FAILED)
    assert found(submitted(), asked(verb, answer=answer), j=failed) == ["failed"]


def test_what_was_deleted_is_gone():
    assert found(submitted(), asked(Verb.DELETE)) == []
    assert found(submitted(), asked(Verb.DELETE), j=GOOD) == ["taken back"]


def test_what_was_seen_ended_stays_so():
    done = read(JobStatus.SUCCEEDED, 1.0)
    assert found(submitted(), done, read(JobStatus.SUCCEEDED, 2.0), j=GOOD) == []
    assert found(submitted(), done, read(JobStatus.RUNNING, 2.0), j=GOOD) == ["taken back"]
    assert found(submitted(), done, read(JobStatus.CANCELED, 2.0), j=GOOD) == ["taken back"]
    assert found(submitted(), done, j=replace(GOOD, status=JobStatus.RUNNING)) == [
        "taken back",
        "stuck",
    ]


def test_a_read_that_began_before_may_be_answered_later():
    late = replace(read(JobStatus.RUNNING, 1.2), ended=9.0)
    assert found(submitted(), read(JobStatus.SUCCEEDED, 1.0), late, j=GOOD) == []


def test_a_cancelled_job_is_not_made_after_all():
    cancelled = asked(Verb.CANCEL, status=JobStatus.CANCELED)
    as_seen = replace(GOOD, status=JobStatus.CANCELED)
    assert found(submitted(), cancelled, j=as_seen) == []
    assert found(submitted(), cancelled, j=GOOD) == ["taken back"]


def test_an_answer_that_nobody_should_see_is_told():
    wrong = submitted(answer=Answer.WRONG, job_id="")
    assert found(wrong, submitted(at=1.0), j=GOOD) == ["wrong answer"]
