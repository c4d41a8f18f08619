"""How are prompts that arrive together classified in one go? Beside the event loop, in time or not.

Prompts that come while others are read wait for the next go, so the busier the service, the larger
its batches, up to a limit.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from core.log import get_logger
from scheduler.classify import ANY, Classifier, OneClass
from scheduler.metrics import Metrics

log = get_logger(__name__)

Waiting = tuple[str, "asyncio.Future[str]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """How prompts are gathered."""

    batch: int = 16  #: prompts of one go, at most
    wait_s: float = 0.0  #: that the first of a go waits for others, while nothing is read


class Gathering:
    """Classifies prompts, and never keeps a job waiting longer than its budget."""

    def __init__(
        self,
        classifier: Classifier,
        *,
        metrics: Metrics,
        budget_s: float = 0.2,
        window: Window | None = None,
    ) -> None:
        self.classifier = classifier
        self.window = window or Window()  #: may change at any time
        self._budget_s = budget_s
        self._metrics = metrics
        self._waiting: deque[Waiting] = deque()
        self._going: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="classifier")

    async def classify(self, prompts: Sequence[str]) -> list[str]:
        """Name the class of each prompt; of one that is late, or cannot be classified: `any`."""
        if isinstance(self.classifier, OneClass) or not prompts:
            return self.classifier.classify(prompts)
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in prompts]
        self._waiting.extend(zip(prompts, answers, strict=True))
        if self._going is None or self._going.done():
            self._going = asyncio.create_task(self._go())
        _, late = await asyncio.wait(answers, timeout=self._budget_s)
        for answer in late:
            answer.cancel()  # nobody classifies it any more
        self._metrics.see_late(len(late))
        return [ANY if answer in late else answer.result() for answer in answers]

    def close(self) -> None:
        """Let the go in flight end alone."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _go(self) -> None:
        """Classify what waits, batch by batch, until nothing does."""
        loop, window = asyncio.get_running_loop(), self.window
        if len(self._waiting) < window.batch and window.wait_s:
            await asyncio.sleep(window.wait_s)
        while some := self._taken():
            prompts = [prompt for prompt, _ in some]
            classes = await loop.run_in_executor(self._thread, self._classify, prompts)
            for (_, answer), name in zip(some, classes, strict=True):
                if not answer.done():
                    answer.set_result(name)

    def _taken(self) -> list[Waiting]:
        some: list[Waiting] = []
        while self._waiting and len(some) < self.window.batch:
            prompt, answer = self._waiting.popleft()
            if not answer.done():
                some.append((prompt, answer))
        return some

    def _classify(self, prompts: Sequence[str]) -> list[str]:
        began = time.perf_counter()
        try:
            classes = self.classifier.classify(prompts)
        except Exception as error:  # a job can do without
            log.warning("not_classified", error=repr(error))
            classes = [ANY] * len(prompts)
        self._metrics.see_classes(time.perf_counter() - began, classes)
        return classes
