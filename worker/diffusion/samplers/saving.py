"""Save where a sampler stands, and have another of the same schedule stand there.

What steps its rows keeps its memory with the latents. One that steps alone keeps it in attributes
of its scheduler: all of them that are numbers or tensors are saved, so none is forgotten.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from core.errors import EngineError
from worker.diffusion.device import to_device, to_host
from worker.diffusion.samplers.sampler import Sampler

#: Names the state of its random generator among the tensors.
GENERATOR = "generator"
#: Stands before the names of a scheduler's tensors.
_SCHEDULER = "scheduler."

Number = int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedSampler:
    """What a sampler knows beside its schedule and what is kept with the latents."""

    position: int  #: calls of the model before it
    numbers: Mapping[str, Number] = field(default_factory=dict)  #: of its scheduler, by attribute
    lists: Mapping[str, int] = field(default_factory=dict)  #: of tensors likewise: how long each is


def save(sampler: Sampler) -> tuple[SavedSampler, dict[str, Tensor]]:
    """Save where a sampler stands, with copies of its tensors; nothing waits for the device."""
    tensors = {GENERATOR: sampler.generator.get_state()}
    if sampler.stepper is not None:
        return SavedSampler(position=sampler.position), tensors
    numbers: dict[str, Number] = {}
    lists: dict[str, int] = {}
    for name, value in vars(sampler.scheduler).items():
        if value is None or isinstance(value, int | float):
            numbers[name] = _plain(value)
        elif isinstance(value, Tensor):
            tensors[_SCHEDULER + name] = to_host(value)
        elif isinstance(value, list) and all(x is None or isinstance(x, Tensor) for x in value):
            lists[name] = len(value)
            there = {f"{_SCHEDULER}{name}.{at}": each for at, each in enumerate(value)}
            tensors |= {key: to_host(x) for key, x in there.items() if x is not None}
    return SavedSampler(position=sampler.position, numbers=numbers, lists=lists), tensors


def restore(
    sampler: Sampler, saved: SavedSampler, tensors: Mapping[str, Tensor], device: torch.device
) -> None:
    """Have a sampler of the same schedule stand where another stood.

    Raises: EngineError if it cannot stand there; nothing has changed then.
    """
    if not sampler.position <= saved.position <= sampler.num_steps or GENERATOR not in tensors:
        raise EngineError(f"this schedule has no call {saved.position} that it could go on with")
    is_alone = bool(saved.numbers or saved.lists)
    if is_alone != (sampler.stepper is None):
        raise EngineError("the state is of a sampler that steps otherwise")
    try:
        sampler.generator.set_state(tensors[GENERATOR])
    except (RuntimeError, TypeError) as error:
        raise EngineError(f"the state of its generator is damaged: {error}") from error
    for name, value in saved.numbers.items():
        setattr(sampler.scheduler, name, value)
    for name, length in saved.lists.items():
        keys = [f"{_SCHEDULER}{name}.{at}" for at in range(length)]
        found = [tensors.get(key) for key in keys]
        setattr(sampler.scheduler, name, [_placed(x, device) for x in found])
    for key, tensor in tensors.items():
        name = key.removeprefix(_SCHEDULER)
        if key.startswith(_SCHEDULER) and "." not in name:
            setattr(sampler.scheduler, name, _placed(tensor, device))
    sampler.stand_at(saved.position)


def _plain(number: Number) -> Number:
    """Numbers of numpy are numbers of Python too."""
    if number is None or isinstance(number, bool):
        return number
    return int(number) if isinstance(number, int) else float(number)


def _placed(tensor: Tensor | None, device: torch.device) -> Tensor | None:
    """Schedules stay on the host; what has the shape of latents was on the device."""
    is_on_device = tensor is not None and tensor.dim() == 4
    return to_device(tensor, device) if tensor is not None and is_on_device else tensor
