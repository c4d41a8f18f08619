"""A state that is read is the one that was written, of the same image, or it is refused."""

import zlib
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import EngineError
from core.schema import SCHEMA
from worker.diffusion.image_state import ImageState, read_state

PAYLOAD = bytes(range(256))
STATE = ImageState(
    identity="ab", step=3, steps=9, checksum=zlib.crc32(PAYLOAD), payload=PAYLOAD, reached="10"
)


def test_it_comes_back_as_it_was():
    assert read_state(STATE.write(), "ab") == STATE


@pytest.mark.parametrize(
    "changes",
    [
        {"identity": "cd"},
        {"checksum": 1},
        {"payload": PAYLOAD[:-1]},
        {"step": 0},
        {"step": 10},
    ],
    ids=str,
)
def test_another_image_or_content_is_refused(changes):
    with pytest.raises(EngineError):
        read_state(replace(STATE, **changes).write(), "ab")


def test_what_a_newer_version_wrote_is_begun_anew():
    data = msgspec.msgpack.encode(replace(STATE, version=SCHEMA.number + 1))
    with pytest.raises(EngineError, match="a newer one wrote it"):
        read_state(data, "ab")


@given(at=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 50))
def test_damaged_bytes_never_give_other_tensors(at, byte, cut):
    data = bytearray(STATE.write())
    data[at % len(data)] = byte
    try:
        read = read_state(bytes(data[: len(data) - cut]), "ab")
    except EngineError:
        return
    assert read.payload == PAYLOAD
