"""Step by UniPC of second order: correct the last step by the new prediction, then predict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from worker.diffusion.samplers.ddim import clean_of
from worker.diffusion.samplers.dpm import alpha_sigma
from worker.diffusion.samplers.stepper import (
    Coefficients,
    Number,
    Stepper,
    Table,
    is_velocity,
    over,
    times,
)
from worker.diffusion.stock import Scheduler


class _Update(NamedTuple):
    """Coefficients of a corrector or a predictor."""

    keep: Number  #: of the latents before
    image: Number  #: of the image predicted then
    change: Number  #: of what follows
    ratio: Number = 1.0  #: of two steps' lengths
    turn: Number = 0.0  #: of the difference to the image predicted before that
    new: Number = 0.0  #: of the difference to the image predicted after it


NONE = _Update(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class UniPc(Stepper):
    """`UniPCMultistepScheduler`. Keeps the images predicted last, and the latents before a step."""

    is_velocity: bool
    num_kept = 3
    names = ("model_outputs.1", "model_outputs.2", "last_sample")

    def table(self, scheduler: Scheduler, begin: int) -> Table:
        levels = [alpha_sigma(scheduler, sigma) for sigma in scheduler.sigmas]
        skipped = scheduler.config.disable_corrector
        for call in range(len(scheduler.timesteps)):
            corrector = NONE
            if call > begin and call - 1 not in skipped:
                order = order_of(scheduler, begin, call - 1)
                corrector = _corrector(scheduler, levels, call, order)
            predictor = _predictor(scheduler, levels, call, order_of(scheduler, begin, call))
            yield 1.0, *levels[call], *corrector, *predictor[:5]

    def counts(self, scheduler: Scheduler, calls: int) -> Mapping[str, int]:
        number = min(calls, scheduler.config.solver_order)
        order = order_of(scheduler, 0, calls - 1)
        return {"lower_order_nums": number, "this_order": order}

    def step(
        self, c: Coefficients, state: Tensor, prediction: Tensor, noise: Tensor
    ) -> Sequence[Tensor]:
        del noise
        alpha, sigma, *others = c
        keep, image, change, ratio, turn, new, *predictor = others
        sample, newest, older, last = state.to(prediction.dtype).unbind(1)
        clean = clean_of(sample, prediction, alpha, sigma, is_velocity=self.is_velocity)
        curve = times(over(older - newest, ratio), turn) + times(clean - newest, new)
        corrected = times(last, keep) - times(newest, image) - times(curve, change)
        sample = torch.where(keep > 0, corrected.to(sample.dtype), sample)
        keep, image, change, ratio, turn = predictor
        curve = times(over(newest - clean, ratio), turn)
        after = times(sample, keep) - times(clean, image) - times(curve, change)
        return after, clean, newest, sample


def unipc(scheduler: Scheduler) -> UniPc | None:
    """Find the stepper; None: of another order, or without a predicted image."""
    config, velocity = scheduler.config, is_velocity(scheduler)
    if velocity is None or config.thresholding or not config.predict_x0:
        return None
    if config.solver_order != 2 or config.solver_p is not None:
        return None
    return UniPc(velocity)


def order_of(scheduler: Scheduler, begin: int, call: int) -> int:
    """Say of which order a call's predictor is, of an image that begins with call `begin`."""
    most: int = scheduler.config.solver_order
    if scheduler.config.lower_order_final:
        most = min(most, len(scheduler.timesteps) - call)
    return max(1, min(most, call - begin + 1))


Levels = Sequence[tuple[Tensor, Tensor]]


def _predictor(scheduler: Scheduler, levels: Levels, call: int, order: int) -> _Update:
    update, _, ratio = _update(scheduler, levels, call + 1, order)
    return update if order == 1 else update._replace(ratio=ratio, turn=0.5)


def _corrector(scheduler: Scheduler, levels: Levels, call: int, order: int) -> _Update:
    update, weights, ratio = _update(scheduler, levels, call, order)
    if order == 1:
        return update._replace(new=0.5)
    return update._replace(ratio=ratio, turn=weights[0], new=weights[1])


def _update(
    scheduler: Scheduler, levels: Levels, to: int, order: int
) -> tuple[_Update, Tensor, Number]:
    """Step from the level before to level `to`. Also gives the weights of order 2, and the ratio.

    Source: UniPC (Zhao et al. 2023), Eq. 9 to 11.
    """
    lambdas = [torch.log(a) - torch.log(s) for a, s in levels[to - order : to + 1]]
    (alpha, sigma), (_, sigma_from) = levels[to], levels[to - 1]
    h = lambdas[-1] - lambdas[-2]
    ratios = [(lambdas[-3] - lambdas[-2]) / h] if order == 2 else []
    grown = torch.expm1(-h)
    of_kind = {"bh1": -h, "bh2": grown}[scheduler.config.solver_type]
    update = _Update(sigma / sigma_from, alpha * grown, alpha * of_kind)
    if not ratios:
        return update, grown, 1.0
    first = grown / -h - 1
    second = first / -h - 1 / 2
    b = torch.stack([first / of_kind, second * 2 / of_kind])
    rows = torch.stack([*ratios, torch.ones(())])
    matrix = torch.stack([torch.pow(rows, power) for power in range(order)])
    return update, torch.linalg.solve(matrix, b), ratios[0]
