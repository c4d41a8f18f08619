import zlib
from contextlib import suppress
from threading import Event

import pytest

from classifier.training.learned import Errors
from classifier.training.retrain import NEW, RetrainResult
from core.boards.classifier import SHIPPED, ClassifierVersion
from core.boards.score import Score
from core.errors import ConfigurationError, ObjectsUnavailable
from storage.boards.classifiers import KEPT
from storage.fakes import MemoryClassifiers, MemoryLeadership, MemoryScores, MemoryStore
from tasks.jobs.retrain import Retraining

SCORE = Score(job="j1", prompt="a red circle", level="base@0", quality=0.5)
BETTER = RetrainResult(
    chosen=NEW,
    reason="trained anew",
    images=7,
    before=Errors(recent=0.2, shipped=0.0),
    after=Errors(recent=0.1, shipped=0.0),
    base="by hand",
)


class FakeRetraining:
    """Trains nothing, and says what it is told to say."""

    def __init__(self, verdict=BETTER, version="new", error=None):
        self.verdict, self.version, self.error, self.asked = verdict, version, error, []
        self.deleted = []

    def retrain(self, versions, scores):
        self.asked.append(([v.id for v in versions], [s.job for s in scores]))
        if self.error:
            raise self.error
        return self.verdict, self.version

    def forget(self, version_ids):
        self.deleted += version_ids


async def retrain(board, data, lead=None):
    scores = MemoryScores()
    await scores.add([SCORE])
    return await Retraining(
        board,
        scores,
        lead=lead or MemoryLeadership(MemoryStore(), "retrain", "a", 60.0),
        data=lambda: data,
        clock=lambda: 5.0,
    ).run()


async def a_board(*ids):
    board = MemoryClassifiers()
    for name in ids:
        await board.publish(ClassifierVersion(id=name, made_at=1.0, cause=""))
    await board.want("quality fell")
    return board


async def test_a_better_classifier_is_published_with_its_cause():
    board, data = await a_board("old"), FakeRetraining()
    assert await retrain(board, data) == "trained anew"
    assert data.asked == [(["old"], ["j1"])]
    assert (await board.versions())[0] == ClassifierVersion(
        id="new",
        made_at=5.0,
        cause="quality fell: trained anew",
        images=7,
        error=0.1,
        error_before=0.2,
        base="by hand",
    )
    assert await board.wanted() is None


async def test_without_a_better_one_all_stays_as_it_is_and_nothing_is_wanted_any_more():
    board = await a_board("old")
    none = RetrainResult(chosen=None, reason="none is better on held-out prompts")
    assert await retrain(board, FakeRetraining(none, None)) == none.reason
    assert [v.id for v in await board.versions()] == ["old"]
    assert await board.wanted() is None


async def test_what_nobody_wants_is_not_done():
    data = FakeRetraining()
    await retrain(MemoryClassifiers(), data)
    assert data.asked == []


async def test_while_a_store_is_away_it_stays_wanted():
    board = await a_board()
    with pytest.raises(ObjectsUnavailable):
        await retrain(board, FakeRetraining(error=ObjectsUnavailable("away")))
    assert await board.wanted() == "quality fell"


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("too few"),
        ImportError("no numpy"),
        OSError("disk full"),
        zlib.error("damaged"),
        MemoryError("too much"),
        ValueError("a bug"),
    ],
)
async def test_what_cannot_be_done_is_not_tried_for_ever(error):
    board = await a_board()
    assert await retrain(board, FakeRetraining(error=error)) == str(error)
    assert await board.wanted() is None


async def test_where_it_cannot_even_begin_it_is_not_tried_for_ever():
    board = await a_board()

    def open_data():
        raise ConfigurationError("ATELIER_URL_SECRET: needed")

    lead = MemoryLeadership(MemoryStore(), "retrain", "a", 60.0)
    await Retraining(board, MemoryScores(), lead=lead, data=open_data).run()
    assert await board.wanted() is None


@pytest.mark.parametrize("error", [None, OSError("disk full"), ObjectsUnavailable("away")])
async def test_whatever_comes_of_it_another_may_retrain_at_once(error):
    store, board = MemoryStore(), await a_board()
    lead, other = (MemoryLeadership(store, "retrain", name, 60.0) for name in "ab")
    with suppress(ObjectsUnavailable):
        await retrain(board, FakeRetraining(error=error), lead)
    assert await other.acquire() is not None


async def test_while_another_is_at_it_nothing_is_done():
    store, board, data = MemoryStore(), await a_board(), FakeRetraining()
    lead, other = (MemoryLeadership(store, "retrain", name, 60.0) for name in "ab")
    assert await other.acquire() is not None
    assert await retrain(board, data, lead) == "somebody else is at it"
    assert (data.asked, await board.wanted()) == ([], "quality fell")


async def test_files_of_forgotten_classifiers_go_but_not_those_of_one_that_came_back():
    board = await a_board("twice", *(f"v{i}" for i in range(KEPT - 2)), "twice")
    data = FakeRetraining(version=SHIPPED)
    await retrain(board, data)
    assert data.deleted == [], "`twice` is forgotten once, and remembered once"
    for _ in range(KEPT):
        await board.want("again")
        await retrain(board, data)
    assert set(data.deleted) == {"twice", *(f"v{i}" for i in range(KEPT - 2))}


@pytest.mark.parametrize("step", ["open", "retrain"])
async def test_the_lease_is_kept_while_it_works(step):
    renewed = Event()

    class Lead(MemoryLeadership):
        async def renew(self):
            renewed.set()
            return True

    def work(at):
        if step == at:
            renewed.wait(60.0)

    class Slow(FakeRetraining):
        def __init__(self):
            work("open")
            super().__init__()

        def retrain(self, versions, scores):
            work("retrain")
            return super().retrain(versions, scores)

    board, lead = await a_board(), Lead(MemoryStore(), "retrain", "a", 60.0)
    retraining = Retraining(board, MemoryScores(), lead=lead, data=Slow, renew_s=0.01)
    assert await retraining.run() == "trained anew"
    assert renewed.is_set()
