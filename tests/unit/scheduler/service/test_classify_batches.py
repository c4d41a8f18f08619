import asyncio
import threading
from collections.abc import Sequence

from scheduler.metrics import Metrics
from scheduler.routing.classify import ANY, InForce, OneClass
from scheduler.service.classify_batches import KNOWN, BatchedClassifier


class Slow:
    """Classifies by the first letter, once it may."""

    classes = ("a", "b")

    def __init__(self) -> None:
        self.may = threading.Event()
        self.may.set()
        self.asked: list[list[str]] = []
        self.is_broken = False

    def classify(self, prompts: Sequence[str]) -> list[str]:
        self.may.wait(60)
        self.asked.append(list(prompts))
        if self.is_broken:
            raise RuntimeError("no weights")
        return [prompt[0] for prompt in prompts]


def batched(slow: Slow, *, budget_s: float = 5.0, most: int = 16) -> BatchedClassifier:
    return BatchedClassifier(slow, metrics=Metrics(), budget_s=budget_s, most=most)


async def test_what_comes_while_others_are_read_is_read_in_one_go() -> None:
    slow = Slow()
    classifier = batched(slow)
    slow.may.clear()
    first = asyncio.create_task(classifier.classify(["a1"]))
    await asyncio.sleep(0.01)
    rest = [asyncio.create_task(classifier.classify([f"b{i}", f"a{i}"])) for i in range(3)]
    await asyncio.sleep(0.01)
    slow.may.set()
    assert await first == ["a"]
    assert await asyncio.gather(*rest) == [["b", "a"]] * 3
    assert [len(some) for some in slow.asked] == [1, 6]


async def test_no_go_has_more_than_the_most() -> None:
    slow = Slow()
    prompts = [f"{'ab'[i % 2]}{i}" for i in range(10)]
    assert await batched(slow, most=4).classify(prompts) == ["a", "b"] * 5
    assert [len(some) for some in slow.asked] == [4, 4, 2]


async def test_a_prompt_that_is_late_is_like_any_other_and_nobody_reads_it() -> None:
    slow = Slow()
    classifier = batched(slow, budget_s=0.02, most=1)
    slow.may.clear()
    assert await classifier.classify(["a1", "a2"]) == [ANY, ANY]
    slow.may.set()
    classifier = batched(slow)
    assert await classifier.classify(["b1"]) == ["b"]
    assert ["a2"] not in slow.asked


async def test_what_cannot_be_classified_is_like_any_other() -> None:
    slow = Slow()
    slow.is_broken = True
    classifier = batched(slow)
    assert await classifier.classify(["a"]) == [ANY]
    slow.is_broken = False
    assert await classifier.classify(["a"]) == ["a"]


async def test_no_prompts_have_no_classes() -> None:
    assert await batched(Slow()).classify([]) == []


async def test_one_class_needs_no_thread() -> None:
    assert await BatchedClassifier(OneClass(), metrics=Metrics()).classify(["x", "y"]) == [ANY, ANY]


async def test_a_prompt_is_read_once_while_its_classifier_is_in_force() -> None:
    slow, other = Slow(), Slow()
    force = InForce(slow)
    classifier = BatchedClassifier(force, metrics=Metrics(), budget_s=5.0)
    assert await classifier.classify(["a1", "b1", "a1"]) == ["a", "b", "a"]
    assert await classifier.classify(["b1", "a1", "a2"]) == ["b", "a", "a"]
    assert slow.asked == [["a1", "b1"], ["a2"]]
    force.classifier = other
    assert await classifier.classify(["a1"]) == ["a"]
    assert other.asked == [["a1"]]


async def test_what_a_replaced_classifier_says_late_is_not_remembered() -> None:
    slow, other = Slow(), Slow()
    force = InForce(slow)
    classifier = BatchedClassifier(force, metrics=Metrics(), budget_s=5.0)
    slow.may.clear()
    asking = asyncio.create_task(classifier.classify(["a1"]))
    await asyncio.sleep(0.01)
    force.classifier = other
    slow.may.set()
    assert await asking == ["a"]
    assert await classifier.classify(["a1"]) == ["a"]
    assert other.asked == [["a1"]]


async def test_what_could_not_be_classified_is_read_again_and_the_oldest_are_forgotten() -> None:
    slow = Slow()
    classifier = batched(slow)
    slow.is_broken = True
    assert await classifier.classify(["a1"]) == [ANY]
    slow.is_broken = False
    assert await classifier.classify(["a1"]) == ["a"]
    await classifier.classify([f"b{number}" for number in range(KNOWN - 1)])
    assert await classifier.classify(["a1"]) == ["a"]
    await classifier.classify(["c"])  # `b0` was asked for before `a1` was
    slow.asked.clear()
    assert await classifier.classify(["a1", "b0"]) == ["a", "b"]
    assert slow.asked == [["b0"]]
