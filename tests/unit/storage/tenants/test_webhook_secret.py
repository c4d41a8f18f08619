from base64 import b64decode

from hypothesis import given
from hypothesis import strategies as st

from storage.tenants.webhook_secret import MOST, OF_SETTINGS, WebhookSalt, derive, rotate, signing

MASTER = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_who_has_none_of_its_own_is_signed_for_by_that_of_the_settings():
    (only,) = signing((), 5.0)
    assert derive(MASTER, "acme", only) == MASTER


def test_a_secret_is_a_tenants_own_and_the_same_each_time():
    (salt, _) = rotate((), 5.0, 60.0)
    secret = derive(MASTER, "acme", salt)
    assert secret == derive(MASTER, "acme", salt)
    assert secret != derive(MASTER, "bolt", salt) != derive(MASTER + "x", "bolt", salt)
    assert secret.startswith("whsec_") and len(b64decode(secret.removeprefix("whsec_"))) == 32
    assert salt.salt not in secret


def test_after_a_rotation_both_sign_until_the_overlap_is_over():
    salts = rotate((), 5.0, 60.0)
    assert [each.salt == OF_SETTINGS for each in signing(salts, 64.9)] == [False, True]
    assert [each.salt for each in signing(salts, 65.0)] == [salts[0].salt]
    again = rotate(salts, 10.0, 3600.0)
    assert [each.ends_at for each in signing(again, 10.0)] == [None, 3610.0, 65.0]


def test_without_an_overlap_the_old_one_ends_at_once():
    assert len(signing(rotate(rotate((), 1.0, 60.0), 2.0, 0.0), 2.0)) == 1


@given(st.lists(st.tuples(st.floats(0, 1e4), st.floats(0, 1e4)), max_size=12))
def test_however_it_is_rotated_one_signs_for_good_and_few_beside_it(acts):
    salts: tuple[WebhookSalt, ...] = ()
    now = 0.0
    for pause_s, overlap_s in acts:
        now += pause_s
        salts = rotate(salts, now, overlap_s)
        active = signing(salts, now)
        assert 1 <= len(active) <= MOST
        assert [each.ends_at for each in active].count(None) == 1
        assert active[0].ends_at is None
