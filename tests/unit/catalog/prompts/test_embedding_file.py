import json
from io import BytesIO

import numpy as np
import pytest
import torch
from safetensors.torch import save

from catalog.prompts.embedding_file import check_fit, read_vectors, widths_of, word_of
from catalog.safetensors_header import read_header
from core.errors import WeightsRefused

SD = {"text_encoder.encoder.layers.0.self_attn.q_proj": (8, 8), "unet.conv_in": (8, 4, 3, 3)}
SDXL = SD | {"text_encoder_2.encoder.layers.0.self_attn.q_proj": (12, 12)}


def table(rows, width, dtype=torch.float32):
    return torch.arange(rows * width, dtype=dtype).reshape(rows, width) / 8


def header_of(data):
    return read_header(BytesIO(data), len(data))


def fit(tensors, shapes):
    return check_fit(header_of(save(tensors)), widths_of(shapes))


def test_files_are_read_as_their_tools_write_them():
    assert fit({"<cat>": table(1, 8)[0]}, SD) == 1
    assert fit({"emb_params": table(5, 8)}, SD) == 5
    assert fit({"clip_g": table(2, 12), "clip_l": table(2, 8)}, SDXL) == 2
    assert fit({"text_encoders_0": table(2, 8), "text_encoders_1": table(2, 12)}, SDXL) == 2
    assert word_of(header_of(save({"<cat>": table(1, 8)}))) == "<cat>"
    assert word_of(header_of(save({"emb_params": table(1, 8)}))) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_vectors_are_those_of_the_file_in_the_order_of_the_encoders(dtype):
    tensors = {"clip_g": table(2, 12, dtype), "clip_l": table(2, 8, dtype)}
    first, second = read_vectors(save(tensors))
    assert np.array_equal(first, tensors["clip_l"].float().numpy())
    assert np.array_equal(second, tensors["clip_g"].float().numpy())
    [alone] = read_vectors(save({"x": table(1, 8, dtype)[0]}))
    assert alone.shape == (1, 8) and alone.dtype == np.float32


@pytest.mark.parametrize(
    ("tensors", "shapes", "reason"),
    [
        ({"x": table(1, 9)}, SD, "vectors of 9 numbers, where its text encoders read 8"),
        ({"x": table(1, 8)}, SDXL, "vectors of 8 numbers, where its text encoders read 8 and 12"),
        ({"clip_l": table(1, 8), "clip_g": table(1, 12)}, SD, "read 8"),
        ({"clip_l": table(1, 8), "clip_g": table(2, 12)}, SDXL, "another number of vectors"),
        ({"x": table(1, 8)}, {}, "read none"),
        ({"x": table(65, 8)}, SD, "65 vectors"),
        ({"x": table(1, 8), "y": table(1, 8)}, SD, "2 tensors; an embedding has one"),
        ({"x": table(1, 8).to(torch.int64)}, SD, "numbers as I64"),
        ({"x": table(1, 8)[None]}, SD, "3 dimensions"),
        ({}, SD, "0 tensors"),
    ],
)
def test_what_fits_no_encoder_says_why(tensors, shapes, reason):
    with pytest.raises(WeightsRefused, match=reason):
        fit(tensors, shapes)


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(WeightsRefused, match="finite"):
        read_vectors(save({"x": torch.full((1, 8), float("nan"))}))


def test_a_header_that_lies_is_refused():
    head = json.dumps({"x": {"dtype": "F32", "shape": [1, 8], "data_offsets": [0, 99]}}).encode()
    with pytest.raises(WeightsRefused):
        read_vectors(len(head).to_bytes(8, "little") + head + bytes(99))
