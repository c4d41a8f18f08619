"""Time masked edits by the stock inpaint pipeline and by the engine, from prompt to pixels.

One at a time, and eight in one batch, each with its mask somewhere else.
"""

from functools import partial

from bench.edit import Subject, open_stock
from bench.on_gpu.part import Part, Tell
from bench.on_gpu.timings import Timings
from bench.parts.place import Place
from core.job import Quality

MASKS = (0.11, 0.2)  #: shares of the image
ROUNDS = 2
MANY = 8


def measure(part: Part, tell: Tell, is_dry: bool, seconds: float) -> None:
    """Time edits of a template that was edited before."""
    del part
    place = Place.of(is_dry=is_dry, seconds=seconds)
    subject = Subject(place.steps, runner=place.runner())
    stock, times = open_stock(subject), Timings(place, tell)
    for mask in MASKS:
        subject.edit(mask)
    stock()

    def many(quality: Quality = Quality.AUTO) -> None:
        shifts = range(0, subject.side // 2, subject.side // 2 // MANY)
        subject.run(*(subject.open(MASKS[0], quality, shift) for shift in shifts))

    many()
    for _ in place.rounds(ROUNDS):
        times.take("edit, stock", stock)
        times.take("edit, engine, in full", partial(subject.edit, MASKS[0], Quality.EXACT))
        for mask in MASKS:
            times.take(f"edit, engine, mask {mask:g}", partial(subject.edit, mask))
        times.take("eight edits, engine, in full", partial(many, Quality.EXACT), images=MANY)
        times.take(f"eight edits, engine, mask {MASKS[0]:g}", many, images=MANY)
