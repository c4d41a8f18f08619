"""Classify prompts in batches off the event loop, within a time budget."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from core.log import get_logger, log_errors
from core.micro_batch import BatchItem, MicroBatcher
from scheduler.metrics import Metrics
from scheduler.routing.classify import ANY, Classifier, OneClass
from scheduler.service.batching import BatchLatency, BatchPolicy, Nexus

log = get_logger(__name__)

#: Prompts of one batch, at most.
MOST = 16
#: Seconds that a batch is taken for until some were timed: to begin it, and for each prompt.
GUESS_S = (0.01, 0.005)


@dataclass(frozen=True, slots=True)
class _Prompt:
    """A prompt that waits for its class."""

    text: str
    due: float  #: on the clock of the batches, s


Prompts = deque[BatchItem[_Prompt, str | None]]


class BatchedClassifier:
    """Classifies prompts in a thread, and never keeps a job waiting longer than its budget."""

    def __init__(
        self,
        classifier: Classifier,
        *,
        metrics: Metrics,
        budget_s: float = 0.2,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Classify in batches whose size adapts to what they take."""
        self.classifier = classifier
        self._metrics = metrics
        self._budget_s = budget_s
        self._clock = clock
        self._policy: BatchPolicy = Nexus(BatchLatency(*GUESS_S), slo_s=budget_s, most=most)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="classify")
        self._batches = MicroBatcher(self._run, self._take)

    async def classify(self, prompts: Sequence[str]) -> list[str]:
        """Name the class of each prompt; of one that is late, or cannot be classified: `any`."""
        if isinstance(self.classifier, OneClass):
            return self.classifier.classify(prompts)
        if not prompts:
            return []
        due = self._clock() + self._budget_s
        answers = [self._batches.ask(_Prompt(text, due)) for text in prompts]
        _, late = await asyncio.wait(answers, timeout=self._budget_s)
        for answer in late:
            answer.cancel()  # nobody makes it any more
        classes = [None if answer in late else answer.result() for answer in answers]
        self._metrics.see_late(classes.count(None))
        return [ANY if name is None else name for name in classes]

    def close(self) -> None:
        """Let the batch in flight end alone."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _take(self, waiting: Prompts) -> list[BatchItem[_Prompt, str | None]]:
        """Take what is in time, as the policy has it, and give up what comes before."""
        move = self._policy.decide([each.item.due for each in waiting], self._clock())
        for _ in range(move.drop):
            waiting.popleft().settle(None)
        batch = [waiting.popleft() for _ in range(move.take)]
        return [each for each in batch if not each.answer.done()]

    async def _run(self, prompts: Sequence[_Prompt]) -> list[str]:
        began, texts = self._clock(), [prompt.text for prompt in prompts]
        loop = asyncio.get_running_loop()
        classes = await loop.run_in_executor(self._thread, self._classify, texts)
        self._policy.observe(len(prompts), self._clock() - began)
        return classes

    def _classify(self, prompts: Sequence[str]) -> list[str]:
        began = time.perf_counter()
        classes = [ANY] * len(prompts)
        with log_errors(log, "not_classified"):
            classes = self.classifier.classify(prompts)
        self._metrics.see_classes(time.perf_counter() - began, classes)
        return classes
