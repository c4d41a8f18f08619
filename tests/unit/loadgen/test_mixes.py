import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.arrivals.gaps import constant
from loadgen.mixes.adapters import CONTROLS, LORAS, AdapterService
from loadgen.mixes.masks import MEANS, MaskTrace, mask_ratios
from loadgen.mixes.mix import RequestMix, draw
from loadgen.mixes.popularity import choose, zipf
from loadgen.mixes.prompts import by_difficulty
from loadgen.prompts import PromptSet, prompt_set

AT = constant(100.0, 300.0)
PROMPTS = [f"prompt {i}" for i in range(40)]


def test_every_request_has_a_prompt_and_says_nothing_else_unless_told():
    workload = draw(constant(5, 2), ["a", "b"], seed=10)
    asks = list(workload.requests(seed=10))
    assert [ask.body["seed"] for ask in asks] == list(range(10, 20))
    assert {ask.prompt for ask in asks} == {"a", "b"}
    assert all(set(ask.body) == {"prompt", "seed"} for ask in asks)


@given(st.integers(0, 2**31))
@settings(max_examples=20, deadline=None)
def test_a_seed_decides_everything(seed):
    mix = RequestMix(
        edits=0.5, adapters=AdapterService.B, cancels=0.2, images=4, applications=("a", "b")
    )
    first, second = (draw(AT[:50], PROMPTS, mix, seed=seed) for _ in range(2))
    for name, column in first.columns.items():
        assert np.array_equal(column, second.columns[name], equal_nan=column.dtype.kind == "f")


def test_one_property_more_leaves_the_others_as_they_are():
    plain = draw(AT, PROMPTS, RequestMix(applications=("a", "b")), seed=3)
    more = draw(AT, PROMPTS, RequestMix(applications=("a", "b"), edits=0.5, cancels=0.1), seed=3)
    assert np.array_equal(plain.prompt, more.prompt)
    assert np.array_equal(plain.application, more.application)


def test_applications_are_asked_by_zipfs_law():
    workload = draw(AT, PROMPTS, RequestMix(applications=("a", "b", "c", "d")), seed=1)
    shares = np.bincount(workload.application) / len(workload)
    assert shares == pytest.approx(zipf(4, 1.001), abs=0.01)
    assert zipf(4, 1.0) == pytest.approx(np.array([12, 6, 4, 3]) / 25)


@pytest.mark.parametrize("trace", MaskTrace)
def test_masks_are_as_large_as_the_paper_says_and_mostly_small(trace):
    ratios = mask_ratios(trace, 50_000, np.random.default_rng(0))
    assert ratios.mean() == pytest.approx(MEANS[trace], rel=0.02)
    assert np.median(ratios) < ratios.mean()
    assert ratios.min() > 0
    assert ratios.max() <= 1


def test_edits_are_the_share_that_was_asked_for():
    workload = draw(AT, PROMPTS, RequestMix(edits=0.7, masks=MaskTrace.PUBLIC), seed=2)
    assert (workload.mask_ratio > 0).mean() == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize("service", AdapterService)
def test_requests_bring_as_many_adapters_as_in_the_papers_table(service):
    workload = draw(AT, PROMPTS, RequestMix(adapters=service), seed=4)
    for column, traffic in ((workload.loras, LORAS), (workload.controls, CONTROLS)):
        wanted = traffic[service].counts
        shares = np.bincount(column, minlength=len(wanted)) / len(column)
        assert sum(wanted) == pytest.approx(1.0)
        assert shares == pytest.approx(np.array(wanted), abs=0.01)


def test_adapters_are_as_popular_as_the_paper_says():
    a, b = CONTROLS[AdapterService.A].popularity, CONTROLS[AdapterService.B].popularity
    assert a[:5].sum() == pytest.approx(0.98, abs=0.001)
    assert b[:8].sum() == pytest.approx(0.95, abs=0.001)
    assert [(LORAS[s].popularity >= 0.01).sum() for s in AdapterService] == [12, 12]


def test_unique_loras_grow_with_the_requests():
    """Katz, Fig. 7: nodes see ever new ones."""
    rng = np.random.default_rng(0)
    drawn = choose(LORAS[AdapterService.A].popularity, 4000, rng)
    assert len(np.unique(drawn)) > 1.5 * len(np.unique(drawn[:2000]))


def test_jobs_have_as_many_images_and_the_sizes_that_were_asked_for():
    workload = draw(AT, PROMPTS, RequestMix(images=8, sizes=((64, 64), (32, 64))), seed=5)
    assert sorted(set(workload.images.tolist())) == list(range(1, 9))
    assert set(zip(workload.width.tolist(), workload.height.tolist(), strict=True)) == {
        (64, 64),
        (32, 64),
    }


def test_clients_cancel_as_often_as_was_asked_for():
    workload = draw(AT, PROMPTS, RequestMix(cancels=0.1, cancel_after_s=2.0), seed=6)
    canceled = ~np.isnan(workload.cancel_s)
    assert canceled.mean() == pytest.approx(0.1, abs=0.01)
    assert workload.cancel_s[canceled].mean() == pytest.approx(2.0, rel=0.1)


def test_prompts_drift_from_easy_to_hard_and_back():
    quality = np.linspace(0, 1, len(PROMPTS))[:, None]
    known = PromptSet(
        texts=tuple(PROMPTS), classes=(None,) * len(PROMPTS), levels=("m@0",), quality=quality
    )
    workload = draw(AT, known, RequestMix(drift_s=300.0), seed=7)
    easy, hard, again = (
        quality[workload.between(low, low + 30).prompt].mean() for low in (0, 135, 270)
    )
    assert easy > 0.8 > 0.2 > hard
    assert again == pytest.approx(easy, abs=0.05)
    assert len(np.unique(workload.prompt)) == len(PROMPTS)


def test_prompts_of_unknown_quality_drift_in_their_own_order():
    assert by_difficulty(prompt_set(["a", "b", "c"])).tolist() == [0, 1, 2]
