import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scheduler.allocation.rollout.futures import turns


@given(
    kinds=st.lists(st.integers(0, 3), max_size=200),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_of_each_class_as_many_turns_fall_on_a_level_as_its_share(
    kinds: list[int], share: float, seed: int
) -> None:
    found = turns(np.array(kinds, np.int64), 4, np.random.default_rng(seed))
    assert ((found >= 0) & (found < 1)).all()
    for c in set(kinds):
        own = found[np.array(kinds) == c]
        assert abs((own < share).sum() - share * len(own)) < 3


def test_the_first_of_few_jobs_is_like_any() -> None:
    drawn = [turns(np.zeros(1, np.int64), 1, np.random.default_rng(seed)) for seed in range(400)]
    assert abs(np.mean(np.concatenate(drawn) < 0.3) - 0.3) < 0.07
