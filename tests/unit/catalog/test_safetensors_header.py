import struct
import time
from io import BytesIO

import msgspec
import pytest

from catalog.safetensors_header import MAX_HEADER_BYTES, read_header
from core.errors import WeightsRefused


def a_file(tensors, data=b""):
    described = msgspec.json.encode(tensors)
    return struct.pack("<Q", len(described)) + described + data


def of_text(text):
    return struct.pack("<Q", len(text)) + text


def described(begin, end, shape=(2,), dtype="F32"):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "cut short"),
        (b"PK\3\4" + bytes(60), "cut short"),
        (struct.pack("<Q", 50) + b"{}", "cut short"),
        (struct.pack("<Q", MAX_HEADER_BYTES + 1) + bytes(MAX_HEADER_BYTES + 9), "at most"),
        (a_file([1]), "not safetensors"),
        (a_file({"a": {}}), "not safetensors"),
        (a_file({"a": described(0, 8, dtype="F3")}, bytes(8)), "unknown number format"),
        (a_file({"a": described(0, 8, (-2, -1))}, bytes(8)), "negative"),
        (a_file({"a": described(0, 8, (3,))}, bytes(8)), "not those of its shape"),
        (a_file({"a": described(0, 8), "b": described(4, 12)}, bytes(12)), "overlap"),
        (a_file({"a": described(0, 8), "b": described(12, 20)}, bytes(20)), "none"),
        (a_file({"a": described(0, 8)}, bytes(9)), "speaks of"),
        (a_file({"a": described(0, 8)}, bytes(7)), "speaks of"),
        (a_file({"a": described(0, 8, (1,) * 9)}, bytes(8)), "9 dimensions; at most 8"),
        (a_file({"a": described(0, 8, (2**32,))}, bytes(8)), "not below 4294967296"),
        (a_file({"a": described(0, 8, (9**19,) * 16_000)}, bytes(8)), "16000 dimensions"),
        (a_file({"a" * 257: described(0, 8)}, bytes(8)), "at most 256 characters"),
        (a_file({"a": described(0, 8, dtype="F" * 3_000_000)}, bytes(8)), "3000000 characters"),
        (a_file({str(i): 0 for i in range(10_001)}), "10001 tensors; at most 10000"),
        (a_file({str(i): 0 for i in range(200_001)}), "200001 colons; at most 200000"),
        (of_text(b'{"a":' + b"[" * 100_000), "nested more deeply"),
        (of_text(b'{"__metadata__":' + b'{"a":' * 100_000), "nested more deeply"),
        (of_text(b'{"a":{"dtype":"F32","shape":[' + b"[" * 100_000), "nested more deeply"),
    ],
    ids=range(23),
)
def test_a_header_that_cannot_be_true_is_refused(data, reason):
    began = time.thread_time()
    with pytest.raises(WeightsRefused, match=reason) as refused:
        read_header(BytesIO(data), len(data))
    assert len(str(refused.value)) < 400 and time.thread_time() - began < 1.0
