"""Pictures are decoded in processes that are limited in time and memory, and replaced."""

import asyncio
import sys
import warnings
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from api.intake.decode_images import read_file, read_mask, read_template
from api.intake.decoders import Decoders
from core.errors import ImageRefused
from tests.unit.api.pictures import a_mask, a_photo

LIMIT = 128 * 128


def greedy(data, max_pixels):
    return bytearray(2**30)


def noisy(data, max_pixels):
    warnings.warn("of a file", stacklevel=1)
    return read_file(data, max_pixels)


@asynccontextmanager
async def decoders(**changes):
    opened = Decoders(**{"max_pixels": LIMIT} | changes)
    try:
        yield opened
    finally:
        await opened.close()


async def test_what_a_process_reads_is_what_would_be_read_here():
    async with decoders() as reading:
        for how, data in (
            (read_file, a_photo()),
            (read_template, a_photo()),
            (read_mask, a_mask()),
        ):
            assert await reading.read(how, data) == how(data, LIMIT)
        with pytest.raises(ImageRefused, match="is black everywhere"):
            await reading.read(read_mask, a_mask(box=None))
        with pytest.raises(ImageRefused, match="at most 16384 in all"):
            await reading.read(read_file, a_photo(256, 256))


async def test_a_picture_that_takes_too_much_memory_is_refused_and_the_next_is_read():
    async with decoders() as reading:
        with pytest.raises(ImageRefused, match="352 MiB"):
            await reading.read(greedy, a_photo())
        assert (await reading.read(read_file, a_photo())).width == 64


async def test_a_picture_writes_nothing_to_the_log(capfd):
    async with decoders() as reading:
        await reading.read(noisy, a_photo())
    assert "of a file" not in capfd.readouterr().err


async def test_a_process_that_takes_too_long_is_ended(logs):
    slow = (sys.executable, "-c", "import time; time.sleep(600)")
    async with decoders(command=slow, limit_s=0.2) as reading:
        with pytest.raises(ImageRefused, match=r"longer than 0\.2 s"):
            await reading.read(read_file, a_photo())
    assert [each["status"] for each in logs if each["event"] == "decoder_ended"] == [-9]


async def test_a_process_that_dies_is_replaced(tmp_path):
    died = tmp_path / "died"
    dying = f"import pathlib, runpy, sys; p = pathlib.Path({str(died)!r})\n"
    dying += "if not p.exists(): p.touch(); sys.exit()\n"
    dying += "runpy.run_module('api.intake.decode_process', run_name='__main__')"
    async with decoders(command=(sys.executable, "-c", dying)) as reading:
        with pytest.raises(ImageRefused, match="cannot be read with"):
            await reading.read(read_file, a_photo())
        assert (await reading.read(read_file, a_photo())).width == 64


async def test_few_are_decoded_at_a_time_and_no_process_is_left():
    async with decoders() as reading:
        await asyncio.gather(*(reading.read(read_file, a_photo()) for _ in range(6)))
        pids = [process.pid for process in reading._idle]
        assert 1 <= len(pids) <= 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
