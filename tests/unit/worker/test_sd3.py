import pytest
import torch
from diffusers import DiffusionPipeline

from core.errors import EngineError
from tests.jobs import a_job, a_request
from tests.models import OF_DIFFUSERS, make_transformer, save_sd3
from tests.stock import Recorder, difference, engine_images
from worker.diffusion.folded_attention import EMPTY_TOKENS, FoldedAttention
from worker.families.load import load

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

SD35 = {"qk_norm": "rms_norm", "dual_attention_layers": (0,)}


def a_runner(folder, **options):
    return load(folder, save_sd3(folder, **options), device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return a_runner(tmp_path_factory.mktemp("models") / "tiny-sd3")


@pytest.mark.parametrize("changes", [{}, SD35], ids=["sd3", "sd3.5"])
def test_one_folded_token_is_as_good_as_all_the_empty_ones(changes):
    transformer = make_transformer(**changes)
    generator = torch.Generator().manual_seed(0)
    latents, caption, pooled = (
        torch.randn(*shape, generator=generator) for shape in ((2, 4, 8, 12), (2, 5, 72), (2, 64))
    )

    def predict(empty):
        text = torch.cat([caption, torch.zeros(2, empty, 72)], dim=1)
        with torch.no_grad():
            return transformer(latents, text, pooled, torch.tensor([10.0, 900.0])).sample

    all_of_them, only_one = predict(EMPTY_TOKENS), predict(1)
    stock = next(iter(transformer.attn_processors.values()))
    transformer.set_attn_processor(FoldedAttention(stock))
    assert difference(predict(1), all_of_them) < 1e-5
    assert difference(only_one, all_of_them) > 1e-3


def test_tokens_are_folded_only_where_they_are_zero_and_many(tmp_path, runner):
    with_t5 = a_runner(tmp_path / "t5", has_t5=True)
    large = a_runner(tmp_path / "large", sample_size=32)

    def tokens(of):
        return of.open(a_request(), 0).conditioning.text.shape[1]

    assert tokens(runner) == 77 + 1
    assert tokens(with_t5) == tokens(large) == 77 + EMPTY_TOKENS


def test_a_t5_that_says_nothing_is_folded_away(tmp_path):
    folder = tmp_path / "tiny-sd3"
    model = save_sd3(folder, has_t5=True)
    pipe = DiffusionPipeline.from_pretrained(folder)
    torch.nn.init.zeros_(pipe.text_encoder_3.encoder.final_layer_norm.weight)
    pipe.save_pretrained(folder)
    silent = load(folder, model, device="cpu", dtype="float32")
    assert silent.open(a_request(), 0).conditioning.text.shape[1] == 77 + 1
    stock = pipe.encode_prompt(prompt=a_request().prompt, prompt_2=None, prompt_3=None)
    assert silent.pipe.text_encoder_3 is None, "which is not asked"
    for ours, its in zip(silent.encode(a_request(), True), stock, strict=True):
        assert torch.equal(ours, its)


@pytest.mark.parametrize("has_t5", [False, True])
def test_what_predicts_does_so_without_the_rest_of_its_pipeline(tmp_path, has_t5):
    model = save_sd3(tmp_path / "tiny-sd3", has_t5=has_t5)
    whole, alone = (
        load(tmp_path / "tiny-sd3", model, device="cpu", dtype="float32", only_predicts=only)
        for only in (False, True)
    )
    sample = whole.open(a_request(), 0)
    packed = whole.packing.pack([sample])
    latents = whole.packing.rows([sample]).inputs()
    with torch.inference_mode():
        expected, found = (of.compute(latents, [500.0] * 2, packed) for of in (whole, alone))
    assert torch.equal(found, expected)
    assert [
        name for name, part in alone.pipe.components.items() if hasattr(part, "parameters")
    ] == ["transformer"]


def test_no_negative_prompt_is_an_empty_one(runner):
    none, empty = (
        runner.open(a_request(negative_prompt=text), 0).conditioning for text in (None, "")
    )
    assert torch.equal(none.text, empty.text) and none.text[0].any()


def test_guidance_takes_two_rows_and_one_or_less_takes_one(runner):
    assert runner.open(a_request(guidance=5.0), 0).rows == 2
    assert runner.open(a_request(guidance=1.0), 0).rows == 1


def test_samplers_of_noise_are_refused(runner):
    with pytest.raises(EngineError, match="'ddim' is unknown; known: euler, heun"):
        runner.open(a_request(scheduler="ddim"), 0)


def test_a_flow_starts_from_plain_noise_and_is_not_scaled(runner):
    sample = runner.open(a_request(), 0)
    assert sample.sampler.noise_level == 1.0
    assert torch.equal(sample.sampler.scale(sample.latents), sample.latents)
    assert runner.open(a_request(steps=4, scheduler="heun"), 0).num_steps == 7


def test_padding_to_a_bucket_changes_no_image(runner):
    jobs = [
        (i, a_job(f"j{i}", at=float(i), model="tiny-sd3", seed=i, guidance=1.0 + i % 2))
        for i in range(3)
    ]
    plain = engine_images(Recorder(runner), jobs)
    runner.packing.buckets = (4, 8)
    try:
        padded = engine_images(Recorder(runner), jobs)
    finally:
        runner.packing.buckets = ()
    assert all(difference(plain[name][0], padded[name][0]) < 1e-5 for name in plain)
