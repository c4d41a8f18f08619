import math

from hypothesis import given
from hypothesis import strategies as st

from router.rendezvous import ranked, stepped, uniform

TENANTS = [f"tenant-{i}" for i in range(1500)]
names = st.sampled_from(["a", "b", "c", "d", "e", "f"])
weights = st.dictionaries(names, st.floats(0.5, 8), min_size=2, max_size=6)


def homes(of):
    return {tenant: ranked(tenant, of)[0] for tenant in TENANTS}


@given(weights, st.data())
def test_of_a_cell_that_goes_only_its_own_tenants_move_and_to_their_second(of, data):
    gone = data.draw(st.sampled_from(sorted(of)))
    left = {name: weight for name, weight in of.items() if name != gone}
    for tenant in TENANTS[:300]:
        before, after = ranked(tenant, of), ranked(tenant, left)
        assert after == [name for name in before if name != gone]


@given(weights, st.floats(1.1, 4))
def test_a_cell_that_grows_takes_tenants_and_moves_no_other(of, times):
    grown = min(of)
    more = of | {grown: of[grown] * times}
    for tenant in TENANTS[:300]:
        before, after = ranked(tenant, of)[0], ranked(tenant, more)[0]
        assert after in (before, grown)


@given(weights)
def test_cells_are_home_to_tenants_in_proportion_to_their_weights(of):
    found = list(homes(of).values())
    for name, weight in of.items():
        share = weight / sum(of.values())
        deviation = math.sqrt(share * (1 - share) / len(TENANTS))
        assert abs(found.count(name) / len(TENANTS) - share) < 6 * deviation


@given(st.text(), st.text())
def test_what_is_drawn_hangs_on_the_texts_alone(one, other):
    assert 0 < uniform(one, other) < 1
    assert uniform(one, other) == uniform(one, other)


@given(st.floats(1e-3, 1e6))
def test_a_weight_that_changes_little_stays_as_it_is(weight):
    assert 0.91 < stepped(weight) / weight < 1.1
    assert stepped(stepped(weight)) == stepped(weight)
