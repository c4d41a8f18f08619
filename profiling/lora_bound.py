"""Measure how many steps an image may run before its LoRA is loaded (Katz, section 6).

The same noise is denoised with the LoRA and without; as long as their latents point the same way,
it does not matter which of the two an image goes on from.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from core.job import JobRequest
from core.levels.schedule import SCHEDULE_STEPS
from worker.families.diffusion_runner import DiffusionRunner
from worker.lora.mix import PLAIN, Mix

#: Cosine of the two latents under which they have parted. The paper has 0.99; styles that change a
#: whole canvas are lost by then (docs/adr/0014).
ALIKE = 0.999


def bound_of(curves: Sequence[Tensor], alike: float = ALIKE) -> int:
    """Find the step up to which the latents of some images are alike on average.

    Shapes: curves [steps], each as `likeness` gives it.
    Units:  K of 50, as levels count steps, rounded down.
    """
    mean = torch.stack(list(curves)).mean(dim=0)
    parted = (mean < alike).nonzero()
    steps = int(parted[0]) if len(parted) else len(mean)
    return steps * SCHEDULE_STEPS // len(mean)


@torch.inference_mode()
def likeness(runner: DiffusionRunner, request: JobRequest, mix: Mix) -> Tensor:
    """Compare the latents with and without a mix after each step. Shapes: [steps], cosines."""
    pair = [runner.begin(request, request.seed, None, each) for each in (PLAIN, mix)]
    cosines = []
    for _ in range(pair[0].num_steps):
        runner.advance(pair, runner.forward(pair))
        without, adapted = (sample.latents.float().flatten() for sample in pair)
        cosines.append(cosine_similarity(without, adapted, dim=0))
    return torch.stack(cosines).cpu()
