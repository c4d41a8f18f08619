"""A family whose steps take the time that the model's `step_s` says, and no processor."""

import time

from worker.families.noop import NoopRunner


class SlowRunner(NoopRunner):
    def forward(self, samples):
        time.sleep(self.model.step_s)
        return super().forward(samples)
