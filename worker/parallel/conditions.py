"""How do the conditions of rows reach the second rank? Once a batch, and each LoRA once."""

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from worker.families.packing import Packed
from worker.lora.mix import Lora, Mix, Product
from worker.parallel.messages import Conditions, LoraNote

#: LoRAs that the second rank has, by id: those of the last conditions.
Known = Mapping[str, Lora]


def write(packed: Packed, known: Known) -> tuple[Conditions, list[Tensor], Known]:
    """Write conditions down; also gives what is known after that."""
    used = {lora.id: lora for mix in packed.mixes for lora in mix.loras}
    fresh = [lora for name, lora in used.items() if known.get(name) is not lora]
    tensors = [packed.text, *(packed.added or {}).values()]
    if packed.time_cond is not None:
        tensors.append(packed.time_cond)
    for lora in fresh:
        tensors += [each for one in lora.products.values() for each in (one.down, one.up)]
    message = Conditions(
        added=tuple(packed.added or {}),
        has_time_cond=packed.time_cond is not None,
        mixes=tuple(mix.key for mix in packed.mixes),
        loras=tuple(_note(lora) for lora in fresh),
        is_steered=packed.is_steered,
    )
    return message, tensors, used


def read(message: Conditions, tensors: Sequence[Tensor], known: Known) -> tuple[Packed, Known]:
    """Read what `write` wrote, with the same LoRAs known before."""
    rest = iter(tensors)
    text = next(rest)
    added = {name: next(rest) for name in message.added}
    time_cond = next(rest) if message.has_time_cond else None
    now = {**known, **{note.id: _lora(note, rest) for note in message.loras}}
    used = {name: now[name] for key in message.mixes for name, _ in key}
    packed = Packed(
        samples=(),
        text=text,
        added=added or None,
        time_cond=time_cond,
        mixes=tuple(Mix(key, tuple(used[name] for name, _ in key)) for key in message.mixes),
        is_steered=message.is_steered,
    )
    return packed, used


def _note(lora: Lora) -> LoraNote:
    scales = tuple(product.scale for product in lora.products.values())
    return LoraNote(id=lora.id, layers=tuple(lora.products), scales=scales)


def _lora(note: LoraNote, rest: Iterator[Tensor]) -> Lora:
    named = zip(note.layers, note.scales, strict=True)
    return Lora(note.id, {layer: Product(next(rest), next(rest), scale) for layer, scale in named})
