"""Send row conditioning to the second rank: once a batch, each LoRA once."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from torch import Tensor

from worker.lora.mix import Lora, Mix, Product
from worker.parallel.messages import LoraNote, RowConditions
from worker.pipeline.packing import Packed


def write(
    packed: Packed, *, number: int, forgotten: Collection[int], told: Iterable[Sequence[Mix]]
) -> tuple[RowConditions, list[Tensor]]:
    """Write conditions down for who knows the LoRAs of these other calls."""
    known = _loras(told)
    fresh = [lora for name, lora in _loras([packed.mixes]).items() if known.get(name) is not lora]
    tensors = [packed.text, *(packed.added or {}).values()]
    if packed.time_cond is not None:
        tensors.append(packed.time_cond)
    for lora in fresh:
        tensors += [each for one in lora.products.values() for each in (one.down, one.up)]
    message = RowConditions(
        number=number,
        forgotten=tuple(forgotten),
        added=tuple(packed.added or {}),
        has_time_cond=packed.time_cond is not None,
        mixes=tuple(mix.key for mix in packed.mixes),
        loras=tuple(_note(lora) for lora in fresh),
    )
    return message, tensors


def read(
    message: RowConditions, tensors: Sequence[Tensor], told: Iterable[Sequence[Mix]]
) -> Packed:
    """Read what `write` wrote for who knows the LoRAs of these other calls."""
    rest = iter(tensors)
    text = next(rest)
    added = {name: next(rest) for name in message.added}
    time_cond = next(rest) if message.has_time_cond else None
    known = {**_loras(told), **{note.id: _lora(note, rest) for note in message.loras}}
    return Packed(
        samples=(),
        text=text,
        added=added or None,
        time_cond=time_cond,
        mixes=tuple(Mix(key, tuple(known[name] for name, _ in key)) for key in message.mixes),
        is_masked=False,  # edits under masks stay with the first rank
    )


def _loras(told: Iterable[Sequence[Mix]]) -> Mapping[str, Lora]:
    return {lora.id: lora for mixes in told for mix in mixes for lora in mix.loras}


def _note(lora: Lora) -> LoraNote:
    scales = tuple(product.scale for product in lora.products.values())
    return LoraNote(id=lora.id, layers=tuple(lora.products), scales=scales)


def _lora(note: LoraNote, rest: Iterator[Tensor]) -> Lora:
    named = zip(note.layers, note.scales, strict=True)
    return Lora(note.id, {layer: Product(next(rest), next(rest), scale) for layer, scale in named})
