"""A picture that ESRGAN enlarges is that of the published formula, whole, tiled and in company."""

import time

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import conv2d, interpolate, leaky_relu, pad

from catalog.models import read_found
from core.errors import BadWeights, EngineError
from core.job import Task
from core.request.upscale import Upscale, windows_of
from tests.jobs import a_job
from tests.stock import engine_images
from tests.upscalers import NAMINGS, weights, write_upscaler
from worker.diffusion.runner import InitInputs
from worker.families.load import load
from worker.trials.timing import fixed_s, step_s


def reference(tensors, picture, unshuffle):
    """ESRGAN as published, by functions alone, of tensors named as Real-ESRGAN names them."""

    def conv(name, value):
        return conv2d(value, tensors[f"{name}.weight"], tensors[f"{name}.bias"], padding=1)

    def relu(value):
        return leaky_relu(value, 0.2)

    def dense(name, x):
        x1 = relu(conv(f"{name}.conv1", x))
        x2 = relu(conv(f"{name}.conv2", torch.cat((x, x1), 1)))
        x3 = relu(conv(f"{name}.conv3", torch.cat((x, x1, x2), 1)))
        x4 = relu(conv(f"{name}.conv4", torch.cat((x, x1, x2, x3), 1)))
        return conv(f"{name}.conv5", torch.cat((x, x1, x2, x3, x4), 1)) * 0.2 + x

    height, width = picture.shape[-2:]
    whole = pad(picture, (0, -width % unshuffle, 0, -height % unshuffle), "reflect")
    n, c, h, w = whole.shape
    cells = whole.view(n, c, h // unshuffle, unshuffle, w // unshuffle, unshuffle)
    cells = cells.permute(0, 1, 3, 5, 2, 4).reshape(n, -1, h // unshuffle, w // unshuffle)
    first = feature = conv("conv_first", cells)
    for block in range(sum(name.endswith("rdb1.conv1.bias") for name in tensors)):
        made = feature
        for number in (1, 2, 3):
            made = dense(f"body.{block}.rdb{number}", made)
        feature = made * 0.2 + feature
    feature = first + conv("conv_body", feature)
    scale = 1
    for name in ("conv_up1", "conv_up2"):
        if f"{name}.weight" in tensors:
            feature = relu(conv(name, interpolate(feature, scale_factor=2, mode="nearest")))
            scale *= 2
    made = conv("conv_last", relu(conv("conv_hr", feature)))
    return made[..., : height * scale // unshuffle, : width * scale // unshuffle]


def loaded(folder, dtype="float32"):
    return load(folder, read_found(folder).model, device="cpu", dtype=dtype)


def a_picture(height, width, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def a_task(name, runner, picture):
    height, width, _ = picture.shape
    steps = len(windows_of(width, height))
    size = {"width": width, "height": height, "steps": steps}
    upscale = Upscale(image="t/p.png")
    return a_job(name, task=Task.UPSCALE, model=runner.model.name, upscale=upscale, **size)


def enlarge(runner, **pictures):
    jobs = [(0, a_task(name, runner, picture)) for name, picture in pictures.items()]
    inputs = {name: InitInputs(image=p, strength=1.0) for name, p in pictures.items()}
    return {name: made[0] for name, made in engine_images(runner, jobs, inputs=inputs).items()}


def as_tensor(picture):
    return torch.from_numpy(picture).permute(2, 0, 1)[None].float() / 255


def as_pixels(made):
    return (made.clamp(0, 1) * 255).round().to(torch.uint8)[0].permute(1, 2, 0).numpy()


@pytest.mark.parametrize(("unshuffle", "ups"), [(1, 2), (2, 2), (4, 2), (1, 1)])
@pytest.mark.parametrize("size", [(24, 32), (17, 23)])
def test_a_network_is_the_published_formula(tmp_path, unshuffle, ups, size):
    tensors = weights(blocks=2, unshuffle=unshuffle, ups=ups)
    runner = loaded(write_upscaler(tmp_path / "up", tensors))
    assert runner.model.scale == 2**ups // unshuffle
    picture = as_tensor(a_picture(*size))
    expected = reference(tensors, picture, unshuffle)
    assert float((runner.enlarged(picture) - expected).abs().max()) <= 1e-5


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("ups", [1, 2])
def test_older_names_are_the_same_network(tmp_path, naming, ups):
    tensors = weights(ups=ups)
    runner = loaded(write_upscaler(tmp_path / "up", NAMINGS[naming](tensors)))
    picture = as_tensor(a_picture(16, 20))
    assert torch.equal(
        runner.enlarged(picture),
        loaded(write_upscaler(tmp_path / "same", tensors)).enlarged(picture),
    )


def test_pictures_are_enlarged_alone_and_in_company(tmp_path):
    tensors = weights(blocks=1)
    runner = loaded(write_upscaler(tmp_path / "up", tensors))
    pictures = {"a": a_picture(40, 24, 1), "b": a_picture(40, 24, 2), "c": a_picture(16, 33, 3)}
    made = enlarge(runner, **pictures)
    for name, picture in pictures.items():
        expected = as_pixels(reference(tensors, as_tensor(picture), 1))
        assert made[name].shape == expected.shape
        assert np.abs(made[name].astype(int) - expected).max() <= 1
        alone = enlarge(runner, **{name: picture})[name]
        apart = np.abs(made[name].astype(int) - alone)
        # Some CPUs add up in another order for a batch: a value at .5 is then rounded elsewhere.
        assert apart.max() <= 1 and (apart > 0).mean() <= 1e-3


def test_a_picture_in_windows_is_the_whole_one_where_the_context_is_all_that_is_read(tmp_path):
    tensors = weights(features=4, growth=2)  # reads 19 pixels around each: fewer than 32
    runner = loaded(write_upscaler(tmp_path / "up", tensors))
    picture = a_picture(258, 260)
    assert len(windows_of(260, 258)) == 4
    expected = as_pixels(reference(tensors, as_tensor(picture), 1))
    made = enlarge(runner, j=picture)["j"]
    assert np.abs(made.astype(int) - expected).max() <= 1


def test_a_deeper_network_differs_near_seams_alone_and_little(tmp_path):
    tensors = weights(blocks=4)  # reads 64 pixels around each
    runner = loaded(write_upscaler(tmp_path / "up", tensors))
    picture = a_picture(20, 470)
    away = [x for x in range(470) if all(abs(x - seam) > 32 for seam in (192, 384))]
    expected = as_pixels(reference(tensors, as_tensor(picture), 1)).astype(int)
    off = np.abs(enlarge(runner, j=picture)["j"].astype(int) - expected)
    assert off.reshape(80, 470, -1)[:, away].max() <= 1 and off.max() <= 3


def test_windows_give_every_pixel_once():
    for width, height in ((16, 16), (256, 257), (1024, 300), (449, 448)):
        given = np.zeros((height, width), int)
        for each in windows_of(width, height):
            given[slice(*each.rows), slice(*each.columns)] += 1
            assert 0 <= each.top <= each.rows[0] and each.rows[1] <= each.top + 256
            assert 0 <= each.left <= each.columns[0] and each.columns[1] <= each.left + 256
        assert (given == 1).all()


def test_half_precision_is_float16_and_never_eight_bits(tmp_path):
    folder = write_upscaler(tmp_path / "up", weights())
    picture = as_tensor(a_picture(16, 16))
    exact = loaded(folder).enlarged(picture)
    assert torch.equal(loaded(folder, "bfloat16").enlarged(picture), exact)
    half = loaded(folder, "float16").enlarged(picture)
    assert 0 < float((half - exact).abs().max()) <= 2e-2


def test_what_is_not_finite_is_no_picture(tmp_path):
    tensors = weights()
    tensors["conv_last.bias"][0] = torch.nan
    runner = loaded(write_upscaler(tmp_path / "up", tensors))
    with pytest.raises(EngineError, match="not finite"):
        enlarge(runner, j=a_picture(16, 16))


def test_a_job_whose_picture_was_not_read_is_refused(tmp_path):
    runner = loaded(write_upscaler(tmp_path / "up", weights()))
    with pytest.raises(EngineError, match="send it again"):
        runner.open(a_task("j", runner, a_picture(16, 16)).request, 0)


def test_trials_time_it_though_they_bring_no_picture(tmp_path):
    runner = loaded(write_upscaler(tmp_path / "up", weights(features=2, growth=1)))
    assert step_s(runner, 2, 1.0, time.perf_counter, tries=1) > 0
    assert fixed_s(runner, time.perf_counter, tries=1) > 0


def test_a_folder_with_other_weights_says_so(tmp_path):
    folder = write_upscaler(tmp_path / "up", weights())
    model = read_found(folder).model
    save_file({"x": torch.zeros(1)}, folder / "more.safetensors")
    with pytest.raises(BadWeights, match="2 safetensors files"):
        load(folder, model, device="cpu", dtype="float32")
