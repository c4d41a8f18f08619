from hypothesis import given
from hypothesis import strategies as st

from storage.objects.image_states import PREFIX, StateKey, folder_of, job_of

names = st.text("abz09-_.", min_size=1)
states = st.builds(
    StateKey,
    tenant=names,
    job_id=names,
    fence=st.integers(0, 10**15),
    index=st.integers(0, 99),
)


@given(key=states)
def test_a_state_is_found_by_its_name(key):
    assert StateKey.read(str(key)) == key
    assert str(key).startswith(f"{folder_of(key.tenant, key.job_id)}/")
    assert job_of(str(key)) == key.job_id


@given(key=st.text(f"{PREFIX}/01a.", max_size=40))
def test_whatever_else_lies_there_is_none(key):
    read = StateKey.read(key)
    assert read is None or str(read) == key


def test_images_and_odd_numbers_are_none():
    others = ["t/j/1/0.png", "states/t/j/1/0.png", "states/t/j/01/0.state", "states/t/j/1/0"]
    assert [StateKey.read(key) for key in others] == [None] * 4
    assert job_of("states") == ""
