import asyncio

from core.boards.demand import ReportedDemand, Stream
from core.boards.plan import Usual
from tests.contract.house import House

STREAM = Stream(application="t/avatars", models=("base", "tiny"))
ASKED = ReportedDemand(
    rates=((STREAM, 2.5),),
    classes={"t/avatars": {"any": 7}},
    wanted={"tiny": 2.0},
    usual={"tiny": (1.5, Usual(steps=20.0, images=2.0))},
)


async def test_every_scheduler_hears_of_the_others_and_not_of_itself(house: House) -> None:
    first, second = house.peer("a"), house.peer("b")
    assert await first.others() == []
    await first.tell(ASKED)
    await second.tell(ReportedDemand(is_burst=True))
    assert await first.others() == [ReportedDemand(is_burst=True)]
    assert await second.others() == [ASKED]
    assert await house.peer("c").others() == [ASKED, ReportedDemand(is_burst=True)]


async def test_only_what_was_said_last_and_lately_counts(house: House) -> None:
    first = house.peer("a")
    await first.tell(ASKED)
    await first.tell(ReportedDemand())
    assert await house.peer("b").others() == [ReportedDemand()]
    await asyncio.sleep(0.02)
    assert await house.peer("b", stale_s=0.01).others() == []
