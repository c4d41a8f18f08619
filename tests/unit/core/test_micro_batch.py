import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.micro_batch import MicroBatcher, at_most

MOST = 4


class Doubling:
    """Doubles numbers once it may; raises what it is told to, in the call it is told."""

    def __init__(self, raised: dict[int, BaseException] | None = None, gives: int = 0) -> None:
        self.may = asyncio.Event()
        self.may.set()
        self.calls: list[list[int]] = []
        self.raised = raised or {}
        self.gives = gives  #: answers too many

    async def __call__(self, numbers: Sequence[int]) -> list[int]:
        self.calls.append(list(numbers))
        number = len(self.calls)
        await self.may.wait()
        if number in self.raised:
            raise self.raised[number]
        return [2 * each for each in numbers] + [0] * self.gives


def batcher(call: Doubling) -> MicroBatcher[int, int]:
    return MicroBatcher(call, at_most(MOST))


async def settled(asked: Sequence["asyncio.Future[int]"]) -> list[int | BaseException]:
    async with asyncio.timeout(60):
        return await asyncio.gather(*asked, return_exceptions=True)


async def test_what_is_asked_for_while_a_call_runs_goes_into_the_next_ones() -> None:
    call = Doubling()
    numbers = batcher(call)
    call.may.clear()
    asked = [numbers.ask(0)]
    await asyncio.sleep(0.01)
    asked += [numbers.ask(i) for i in range(1, 7)]
    call.may.set()
    assert await settled(asked) == [2 * i for i in range(7)]
    assert call.calls == [[0], [1, 2, 3, 4], [5, 6]]


async def test_an_error_is_everybodys_in_its_call_and_nobody_elses() -> None:
    unlucky = ValueError("unlucky")
    numbers = batcher(Doubling({1: unlucky}))
    assert await settled([numbers.ask(i) for i in range(6)]) == [unlucky] * 4 + [8, 10]


async def test_an_answer_that_is_an_error_is_raised_to_who_asked_for_it_alone() -> None:
    refused = ValueError("refused")

    async def halve(numbers: Sequence[int]) -> list[int | Exception]:
        return [refused if number % 2 else number // 2 for number in numbers]

    numbers = MicroBatcher[int, int](halve, at_most(MOST))
    assert await settled([numbers.ask(i) for i in (4, 3, 2)]) == [2, refused, 1]


async def test_a_call_that_gives_another_number_of_answers_fails_its_items() -> None:
    with pytest.raises(RuntimeError, match="1 items gave 2 answers"):
        await batcher(Doubling(gives=1)).ask(1)


async def test_a_queue_that_could_not_be_taken_from_is_asked_again() -> None:
    call, moods = Doubling(), [KeyError("no policy")]

    def take(waiting):
        if moods:
            raise moods.pop()
        return at_most(MOST)(waiting)

    asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
    numbers: MicroBatcher[int, int] = MicroBatcher(call, take)
    first = numbers.ask(1)
    await asyncio.sleep(0.01)
    assert await settled([first, numbers.ask(2)]) == [2, 4]


ERRORS = st.sampled_from([ValueError(), asyncio.CancelledError(), TimeoutError(), OSError()])


@given(
    bursts=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    errors=st.dictionaries(st.integers(1, 8), ERRORS, max_size=3),
    left=st.sets(st.integers(0, 30), max_size=5),
)
async def test_everybody_is_answered_in_order_whatever_a_call_raises_and_whoever_leaves(
    bursts: list[int], errors: dict[int, BaseException], left: set[int]
) -> None:
    call = Doubling(errors)
    numbers, asked = batcher(call), list["asyncio.Future[int]"]()
    for size in bursts:
        asked += [numbers.ask(len(asked) + i) for i in range(size)]
        await asyncio.sleep(0)
        for i in left & set(range(len(asked))):
            asked[i].cancel()
    answers = await settled(asked)
    called = [number for numbers in call.calls for number in numbers]
    assert called == sorted(set(called))
    assert all(len(numbers) <= MOST for numbers in call.calls)
    calls_of = {number: i for i, numbers in enumerate(call.calls, 1) for number in numbers}
    is_ended = any(isinstance(error, asyncio.CancelledError) for error in errors.values())
    for i, answer in enumerate(answers):
        if isinstance(answer, asyncio.CancelledError):
            assert i in left or is_ended
        elif isinstance(answer, BaseException):
            assert answer is errors[calls_of[i]]
        else:
            assert answer == 2 * i
