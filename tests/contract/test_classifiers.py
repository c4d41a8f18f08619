from core.boards.classifier import ClassifierVersion
from storage.boards.classifiers import KEPT
from tests.contract.house import House


def a_version(name: str) -> ClassifierVersion:
    return ClassifierVersion(id=name, made_at=1.5, cause="quality fell", images=300, error=0.01)


async def test_retraining_is_wanted_once_until_it_is_settled(house: House) -> None:
    board = house.classifiers
    assert await board.wanted() is None
    assert await board.want("quality fell — twice")
    assert not await board.want("again")
    assert await board.wanted() == "quality fell — twice"
    await board.settle()
    await board.settle()
    assert await board.wanted() is None
    assert await board.want("again")


async def test_the_last_version_published_is_in_force(house: House) -> None:
    board = house.classifiers
    assert await board.versions() == []
    await board.publish(a_version("a"))
    await board.publish(a_version("b"))
    assert await board.versions() == [a_version("b"), a_version("a")]


async def test_old_versions_are_forgotten_and_named_so_that_their_files_can_go(
    house: House,
) -> None:
    names = [str(i) for i in range(KEPT + 1)]
    dropped = [await house.classifiers.publish(a_version(name)) for name in names]
    assert dropped == [*([] for _ in range(KEPT)), [a_version("0")]]
    assert [v.id for v in await house.classifiers.versions()] == names[:0:-1]
