"""Classify prompts in batches off the event loop, within a time budget."""

import time
from collections.abc import Sequence

from core.log import get_logger, log_errors
from scheduler.metrics import Metrics
from scheduler.routing.classify import ANY, Classifier, OneClass
from scheduler.service.batching import BatchLatency, Nexus
from scheduler.service.micro_batcher import Batcher

log = get_logger(__name__)

#: Prompts of one go, at most.
MOST = 16
#: Seconds that a go is taken for until some were timed: to begin it, and for each prompt.
GUESS_S = (0.01, 0.005)


class Gathering:
    """Classifies prompts, and never keeps a job waiting longer than its budget."""

    def __init__(
        self,
        classifier: Classifier,
        *,
        metrics: Metrics,
        budget_s: float = 0.2,
        most: int = MOST,
    ) -> None:
        """Classify beside the event loop, in goes whose size adapts to what they take."""
        self.classifier = classifier
        self._metrics = metrics
        policy = Nexus(BatchLatency(*GUESS_S), slo_s=budget_s, most=most)
        self._batcher = Batcher(self._classify, policy, slo_s=budget_s)

    async def classify(self, prompts: Sequence[str]) -> list[str]:
        """Name the class of each prompt; of one that is late, or cannot be classified: `any`."""
        if isinstance(self.classifier, OneClass):
            return self.classifier.classify(prompts)
        classes = await self._batcher(prompts)
        self._metrics.see_late(classes.count(None))
        return [ANY if name is None else name for name in classes]

    def close(self) -> None:
        """Let the go in flight end alone."""
        self._batcher.close()

    def _classify(self, prompts: Sequence[str]) -> list[str]:
        began = time.perf_counter()
        classes = [ANY] * len(prompts)
        with log_errors(log, "not_classified"):
            classes = self.classifier.classify(prompts)
        self._metrics.see_classes(time.perf_counter() - began, classes)
        return classes
