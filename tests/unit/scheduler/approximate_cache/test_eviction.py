import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.latents import Lender
from scheduler.approximate_cache.eviction import (
    HALF_LIFE_S,
    CachedLender,
    CacheLimits,
    EvictionLedger,
    excess,
)
from tests.unit.scheduler.fakes import a_lender

NOW = 100_000.0
LIMITS = CacheLimits(num_bytes=10_000, count=100, ttl_s=86_400)


@st.composite
def entries(draw: st.DrawFn) -> dict[str, CachedLender]:
    found = {}
    for number in range(draw(st.integers(0, 30))):
        made_at = draw(st.floats(0, NOW))
        lender = a_lender(
            str(number),
            num_bytes=draw(st.integers(1, 4000)),
            skips=draw(st.sampled_from([(), (25,), (5, 10, 15, 20, 25)])),
            made_at=made_at,
        )
        saved = draw(st.integers(0, 20)) * 5.0
        used_at = draw(st.floats(made_at, NOW))
        found[lender.id] = CachedLender(lender=lender, saved=saved, used_at=used_at)
    return found


def limits() -> st.SearchStrategy[CacheLimits]:
    return st.builds(
        CacheLimits,
        num_bytes=st.integers(0, 20_000),
        count=st.integers(0, 30),
        ttl_s=st.floats(1, 2 * NOW),
    )


@given(entries(), limits())
def test_what_stays_keeps_to_every_limit(
    kept: dict[str, CachedLender], limits: CacheLimits
) -> None:
    gone = excess(kept, limits, NOW)
    assert len(set(gone)) == len(gone)
    stays = [kept[name].lender for name in kept.keys() - set(gone)]
    assert sum(lender.num_bytes for lender in stays) <= limits.num_bytes
    assert len(stays) <= limits.count
    assert all(NOW - lender.made_at <= limits.ttl_s for lender in stays)


@given(entries(), limits())
def test_nobody_goes_before_somebody_of_less_benefit(
    kept: dict[str, CachedLender], limits: CacheLimits
) -> None:
    gone = excess(kept, limits, NOW)
    stays = [kept[name].benefit(NOW) for name in kept.keys() - set(gone)]
    young = [n for n in gone if NOW - kept[n].lender.made_at <= limits.ttl_s]
    assert all(kept[name].benefit(NOW) <= min(stays, default=0.0) for name in young if stays)


@given(entries())
def test_nobody_goes_while_there_is_room(kept: dict[str, CachedLender]) -> None:
    room = CacheLimits(num_bytes=30 * 4000, count=30, ttl_s=2 * NOW)
    assert excess(kept, room, NOW) == []


def test_benefit_is_hits_times_steps_and_fades() -> None:
    fresh = CachedLender(lender=a_lender("a", skips=(5, 25)), used_at=NOW)
    used = CachedLender(lender=fresh.lender, saved=25.0, used_at=NOW)
    assert used.benefit(NOW) == 2 * fresh.benefit(NOW) == 2 * 25 / 1000
    assert used.benefit(NOW + HALF_LIFE_S) == pytest.approx(fresh.benefit(NOW))


def test_the_ledger_counts_bytes_over_additions_uses_and_removals() -> None:
    ledger = EvictionLedger()
    ledger.add([a_lender("a", num_bytes=7000), a_lender("b", num_bytes=2000)])
    ledger.add([a_lender("b", num_bytes=3000)])
    assert (len(ledger), ledger.num_bytes, ledger.fits(LIMITS)) == (2, 10_000, True)
    ledger.add([a_lender("c", num_bytes=500)])
    assert not ledger.fits(LIMITS)
    ledger.use("a", 25, 10.0)
    ledger.use("a", 25, 20.0)
    ledger.use("unknown", 25, 20.0)
    assert ledger.excess(LIMITS, 30.0) == ["b"], "8 steps a kilobyte; a has 11, c 50"


def test_the_least_beneficial_goes_and_is_named() -> None:
    ledger = EvictionLedger()
    lenders: list[Lender] = [a_lender(n, num_bytes=4000) for n in "abc"]
    ledger.add(lenders)
    ledger.use("a", 10, 5.0)
    ledger.use("c", 10, 5.0)
    gone = ledger.excess(LIMITS, 10.0)
    assert gone == ["b"]
    assert ledger.remove([*gone, "unknown"]) == [lenders[1]]
    assert (len(ledger), ledger.num_bytes) == (2, 8000)
