"""Classify prompts in batches off the event loop, within a time budget, each once."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from core.log import get_logger, log_errors
from core.micro_batch import BatchItem, MicroBatcher
from scheduler.metrics import Metrics
from scheduler.routing.classify import ANY, Classifier, InForce, OneClass
from scheduler.service.batching import BatchLatency, BatchPolicy, Nexus

log = get_logger(__name__)

#: Prompts of one batch, at most.
MOST = 16
#: Prompts whose classes are remembered, those last asked for.
KNOWN = 10_000
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
        self._known: OrderedDict[str, str] = OrderedDict()  #: prompt -> class
        self._known_by: Classifier | None = None  #: who gave these classes
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="classify")
        self._batches = MicroBatcher(self._run, self._take)

    async def classify(self, prompts: Sequence[str]) -> list[str]:
        """Name the class of each prompt; of one that is late, or cannot be classified: `any`."""
        if isinstance(self.classifier, OneClass):
            return self.classifier.classify(prompts)
        if not prompts:
            return []
        self._forget_others()
        known = {text: self._recall(text) for text in dict.fromkeys(prompts)}
        self._metrics.see_known([name for text in prompts if (name := known[text]) is not None])
        new = [text for text, name in known.items() if name is None]
        if new:
            known |= dict(zip(new, await self._ask(new), strict=True))
        names = [known[text] for text in prompts]
        self._metrics.see_late(names.count(None))
        return [ANY if name is None else name for name in names]

    async def _ask(self, prompts: Sequence[str]) -> list[str | None]:
        """Classify prompts that are not known; None: not in time."""
        due = self._clock() + self._budget_s
        answers = [self._batches.ask(_Prompt(text, due)) for text in prompts]
        _, late = await asyncio.wait(answers, timeout=self._budget_s)
        for answer in late:
            answer.cancel()  # nobody makes it any more
        return [None if answer in late else answer.result() for answer in answers]

    def _recall(self, prompt: str) -> str | None:
        if prompt in self._known:
            self._known.move_to_end(prompt)
        return self._known.get(prompt)

    def _forget_others(self) -> None:
        """Forget the classes of a classifier that is no longer in force."""
        if self._known_by is not in_force(self.classifier):
            self._known.clear()
            self._known_by = in_force(self.classifier)

    def _remember(self, prompts: Sequence[str], classes: Sequence[str], by: Classifier) -> None:
        """Remember classes, unless their classifier was replaced while it gave them."""
        self._forget_others()
        if by is self._known_by:
            self._known.update(zip(prompts, classes, strict=True))
            while len(self._known) > KNOWN:
                self._known.popitem(last=False)

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
        by = in_force(self.classifier)
        classes = await loop.run_in_executor(self._thread, self._classify, by, texts)
        self._policy.observe(len(prompts), self._clock() - began)
        if classes is None:
            return [ANY] * len(prompts)
        self._remember(texts, classes, by)
        return classes

    def _classify(self, by: Classifier, prompts: Sequence[str]) -> list[str] | None:
        began, classes = time.perf_counter(), None
        with log_errors(log, "not_classified"):
            classes = by.classify(prompts)
        found = [ANY] * len(prompts) if classes is None else classes
        self._metrics.see_classes(time.perf_counter() - began, found)
        return classes


def in_force(classifier: Classifier) -> Classifier:
    """Find who classifies now."""
    return classifier.classifier if isinstance(classifier, InForce) else classifier
