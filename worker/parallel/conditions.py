"""Send row conditioning to the second rank: once a batch, each LoRA once."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from torch import Tensor

from worker.lora.changes import Product, Whole
from worker.lora.mix import Lora, Mix
from worker.parallel.messages import LoraNote, RowConditions, WholeNote
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
        tensors += map(_sendable, _tensors(lora))
    message = RowConditions(
        number=number,
        forgotten=tuple(forgotten),
        added=tuple(packed.added or {}),
        has_time_cond=packed.time_cond is not None,
        mixes=tuple((mix.key, mix.is_fixed) for mix in packed.mixes),
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
        mixes=tuple(
            Mix(key, tuple(known[name] for name, _ in key), is_fixed)
            for key, is_fixed in message.mixes
        ),
    )


def _loras(told: Iterable[Sequence[Mix]]) -> Mapping[str, Lora]:
    return {lora.id: lora for mixes in told for mix in mixes for lora in mix.loras}


def _tensors(lora: Lora) -> Iterator[Tensor]:
    for product in lora.products.values():
        yield from (product.down, product.up)
        if product.bias is not None:
            yield product.bias
    for whole in lora.wholes.values():
        yield from whole.tensors.values()


def _sendable(tensor: Tensor) -> Tensor:
    """Widen what gloo does not send: numbers of eight bits are numbers of bfloat16."""
    return tensor.bfloat16() if tensor.element_size() == 1 else tensor


def _note(lora: Lora) -> LoraNote:
    products = lora.products.values()
    return LoraNote(
        id=lora.id,
        layers=tuple(lora.products),
        scales=tuple(product.scale for product in products),
        has_bias=tuple(product.bias is not None for product in products),
        wholes=tuple(
            WholeNote(
                layer=layer,
                form=whole.form,
                tensors=tuple(whole.tensors),
                scale=whole.scale,
                rows=whole.rows,
            )
            for layer, whole in lora.wholes.items()
        ),
    )


def _lora(note: LoraNote, rest: Iterator[Tensor]) -> Lora:
    named = zip(note.layers, note.scales, note.has_bias, strict=True)
    products = {
        layer: Product(next(rest), next(rest), scale, next(rest) if has_bias else None)
        for layer, scale, has_bias in named
    }
    wholes = {
        each.layer: Whole(
            each.form, {name: next(rest) for name in each.tensors}, each.scale, each.rows
        )
        for each in note.wholes
    }
    return Lora(note.id, products, wholes)
