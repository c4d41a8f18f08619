from collections import Counter
from itertools import islice

from core.levels.approximation import skipping
from core.levels.level import Level
from zoo.quality import draws

FAST, SLOW = Level(model="tiny"), Level(model="base")


def test_every_prompt_meets_every_level_once() -> None:
    drawn = list(draws.teaching({FAST: 0.1, SLOW: 1.0}, 200))
    for level in (FAST, SLOW):
        rows = [row for draw in drawn if draw.level == level for row in draw.rows]
        assert sorted(rows) == list(range(200))
    assert all(len(draw.rows) == len(draw.seeds) <= draws.BATCH for draw in drawn)


def test_a_level_a_hundred_times_as_fast_gets_ten_times_the_images() -> None:
    some = islice(draws.teaching({FAST: 0.01, SLOW: 1.0}, 10**5), 110)
    drawn = Counter(draw.level for draw in some)
    assert drawn == {FAST: 100, SLOW: 10}


def test_levels_of_one_model_share_its_turns() -> None:
    resumed = Level(model="base", approximation=skipping(25))
    some = islice(draws.teaching({FAST: 1.0, SLOW: 1.0, resumed: 1.0}, 10**5), 40)
    drawn = Counter(draw.level for draw in some)
    assert drawn == {FAST: 20, SLOW: 10, resumed: 10}


def test_no_image_has_the_noise_of_another_of_its_prompt() -> None:
    some = list(draws.testing([FAST, SLOW], 2 * draws.TOGETHER + 5, repeats=3))
    assert len(some) == 2 * 3 * 3
    noise = Counter((draw.level, seed) for draw in some for seed in draw.seeds)
    assert set(noise.values()) == {1}
    taught = list(draws.teaching({FAST: 1.0, SLOW: 1.0}, 50))
    assert taught[0].seeds != taught[1].seeds
    assert not {seed for draw in taught for seed in draw.seeds} & {seed for _, seed in noise}


def test_levels_of_one_draw_are_compared_on_equal_noise() -> None:
    one, other = draws.testing([FAST, SLOW], 5, repeats=1)
    assert (one.seeds, one.memory) == (other.seeds, other.memory)


def test_no_draw_is_of_two_rounds() -> None:
    size = 100  # of a round: more than a draw, and no multiple of it
    rounds = [draw.rows for draw in draws.teaching({FAST: 1.0}, draws.ROUNDS * size)]
    assert {len({row // size for row in rows}) for rows in rounds} == {1}
    assert [row // size for rows in rounds for row in rows] == [
        number for number in range(draws.ROUNDS) for _ in range(size)
    ]


def test_levels_that_start_from_memories_are_made_once_from_each() -> None:
    resumed = Level(model="base", approximation=skipping(25))
    some = draws.testing([SLOW, resumed], 5, repeats=draws.MEMORIES + 2)
    drawn = Counter(draw.level for draw in some)
    assert drawn == {SLOW: draws.MEMORIES + 2, resumed: draws.MEMORIES}
