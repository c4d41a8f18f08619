import pytest

from core.application import DEFAULT, Application, application_key, own_name
from core.errors import Conflict, NotFound, TooManyRequests
from tests.contract.house import MAX_APPLICATIONS, House


def an_application(name: str = "avatars", tenant: str = "t") -> Application:
    return Application(
        name=name, tenant=tenant, models=("base", "tiny"), slo_s=2.5, quality_floor=0.9
    )


async def test_what_was_registered_is_read(house: House) -> None:
    await house.applications.add(an_application())
    assert await house.applications.get("t", "avatars") == an_application()
    assert await house.applications.list("t") == [an_application()]


async def test_a_name_is_given_once_a_tenant(house: House) -> None:
    await house.applications.add(an_application())
    with pytest.raises(Conflict, match="avatars"):
        await house.applications.add(an_application())
    await house.applications.add(an_application(tenant="u"))
    assert [each.key for each in await house.applications.all()] == ["t/avatars", "u/avatars"]


async def test_nobody_else_reads_or_removes_it(house: House) -> None:
    await house.applications.add(an_application())
    with pytest.raises(NotFound):
        await house.applications.get("u", "avatars")
    with pytest.raises(NotFound):
        await house.applications.remove("u", "avatars")
    assert await house.applications.list("u") == []
    assert await house.applications.list("t") == [an_application()]


async def test_what_was_removed_is_gone_and_its_name_is_free(house: House) -> None:
    await house.applications.add(an_application())
    await house.applications.remove("t", "avatars")
    with pytest.raises(NotFound):
        await house.applications.get("t", "avatars")
    with pytest.raises(NotFound):
        await house.applications.remove("t", "avatars")
    assert await house.applications.all() == []
    await house.applications.add(an_application())


async def test_a_tenant_registers_no_more_than_it_may(house: House) -> None:
    for i in range(MAX_APPLICATIONS):
        await house.applications.add(an_application(f"a{i}"))
    with pytest.raises(TooManyRequests, match="delete some"):
        await house.applications.add(an_application("more"))
    await house.applications.add(an_application("more", tenant="u"))
    assert [each.name for each in await house.applications.list("t")] == ["a0", "a1", "a2"]


def test_a_key_leads_back_to_the_name_for_its_tenant_alone() -> None:
    assert own_name("t", an_application().key) == "avatars"
    assert own_name("u", an_application().key) is None
    assert own_name("u", application_key("t", None)) == DEFAULT
