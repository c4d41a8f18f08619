import asyncio

from core.boards.score import Score
from storage.boards.scores import FIRST
from tests.contract.house import MAX_SCORES, House


def a_score(name: str = "j1", quality: float = 0.75) -> Score:
    return Score(job=name, prompt="a red circle — ünïcode", level="base@10", quality=quality)


async def test_scores_are_read_in_the_order_they_came(house: House) -> None:
    assert await house.scores.last() == FIRST
    await house.scores.add([a_score("a"), a_score("b", 0.1)])
    await house.scores.add([a_score("c", 1.0)])
    page = await house.scores.after(FIRST, 10)
    assert page.scores == (a_score("a"), a_score("b", 0.1), a_score("c", 1.0))
    assert page.cursor == await house.scores.last()


async def test_a_reader_goes_on_where_it_stopped(house: House) -> None:
    await house.scores.add([a_score("a"), a_score("b"), a_score("c")])
    first = await house.scores.after(FIRST, 2)
    second = await house.scores.after(first.cursor, 2)
    assert [s.job for page in (first, second) for s in page.scores] == ["a", "b", "c"]
    end = await house.scores.after(second.cursor, 2)
    assert (end.scores, end.cursor) == ((), second.cursor)
    await house.scores.add([a_score("d")])
    assert [s.job for s in (await house.scores.after(end.cursor, 2)).scores] == ["d"]


async def test_no_more_are_kept_than_may_be_and_the_oldest_go(house: House) -> None:
    await house.scores.add([a_score(str(i)) for i in range(MAX_SCORES)])
    await house.scores.add([a_score("more")])
    kept = (await house.scores.after(FIRST, 10)).scores
    assert [s.job for s in kept] == ["1", "2", "3", "more"]


async def test_old_ones_are_forgotten_and_new_ones_stay(house: House) -> None:
    for wait_s in (0.05, 1.0, 10.0):  # longer where a slow machine has aged the new one too
        await house.scores.add([a_score("old")])
        await asyncio.sleep(wait_s)
        await house.scores.add([a_score("new")])
        await house.scores.forget(0.6 * wait_s)
        left = [s.job for s in (await house.scores.after(FIRST, 10)).scores]
        if left == ["new"]:
            break
        await house.scores.forget(0.0)
    assert left == ["new"]
    await house.scores.forget(0.0)
    await house.scores.add([])
