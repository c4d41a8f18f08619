"""Weights and long prompts are what `worker.text.weighted` states, alone and among strangers."""

import pytest
import torch

from core.request.prompt_syntax import PromptSyntax
from tests.jobs import a_job, a_request
from tests.models import OF_DIFFUSERS, save_sd, save_sdxl
from tests.stock import difference, engine_images, load_recorder, load_stock, stock_scheduler

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

WEIGHTED = PromptSyntax.WEIGHTED
LONG = "a red circle beside a blue star, " * 7  # a token a letter
#: As it is asked for -> texts of each chunk with their weights, as the formula has them.
CASES = {
    "a (red:1.5) circle": [[("a", 1), ("red", 1.5), ("circle", 1)]],
    "a [red] ((circle))": [[("a", 1), ("red", 1 / 1.1), ("circle", 1.1 * 1.1)]],
    "a red BREAK (circle:0.5)": [[("a red", 1)], [("circle", 0.5)]],
    "x" * 70 + "(" + "y " * 10 + ":-1.2)": [
        [("x" * 70, 1), ("y " * 5, -1.2)],
        [("y " * 5, -1.2)],
    ],
}


@pytest.fixture(scope="module", params=["sd", "sdxl"])
def served(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / request.param
    model = {"sd": save_sd, "sdxl": save_sdxl}[request.param](folder)
    return load_recorder(folder, model), load_stock(folder)


def ids_of(tokenizer, words):
    ids, weights = [], []
    for text, weight in words:
        own = tokenizer(text, add_special_tokens=False).input_ids
        ids, weights = ids + own, weights + [weight] * len(own)
    left = 75 - len(ids)
    ids = [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id, *[tokenizer.pad_token_id] * left]
    return torch.tensor([ids]), torch.tensor([1.0, *weights, 1.0, *[1.0] * left])


@torch.no_grad()
def formula(pipe, chunks):
    """Write the formula out, for a prompt of these chunks."""
    is_sdxl = hasattr(pipe, "text_encoder_2")
    pairs = [(pipe.tokenizer, pipe.text_encoder)]
    pairs += [(pipe.tokenizer_2, pipe.text_encoder_2)] if is_sdxl else []
    texts, pooled = [], None
    for tokenizer, encoder in pairs:
        states = []
        for words in chunks:
            ids, weights = ids_of(tokenizer, words)
            out = encoder(ids, output_hidden_states=True)
            own = out.hidden_states[-2] if is_sdxl else out.last_hidden_state
            weighed = own * weights[None, :, None]
            states.append(weighed * own.mean() / weighed.mean())
            if words is chunks[0]:
                pooled = out[0]
        texts.append(torch.cat(states, dim=1))
    return torch.cat(texts, dim=-1), pooled


def stock(pipe, request, chunks):
    """The stock pipeline, told what the formula says."""
    pipe.scheduler = stock_scheduler(pipe.scheduler, None)
    pipe.set_progress_bar_config(disable=True)
    (text, pooled), (empty, _) = formula(pipe, chunks), formula(pipe, [[] for _ in chunks])
    told = {"prompt_embeds": text, "negative_prompt_embeds": empty}
    if hasattr(pipe, "text_encoder_2"):  # which is told nothing at all without a negative prompt
        told["negative_prompt_embeds"] = torch.zeros_like(text)
        told["pooled_prompt_embeds"] = pooled
        told["negative_pooled_prompt_embeds"] = torch.zeros_like(pooled)
    return pipe(
        width=32,
        height=32,
        num_inference_steps=3,
        guidance_scale=5.0,
        generator=torch.Generator().manual_seed(request.seed),
        output_type="np",
        **told,
    ).images[0]


def weighted(prompt, seed=0, **changes):
    return {"prompt": prompt, "prompt_syntax": WEIGHTED, "seed": seed, "steps": 3, **changes}


def test_weighted_prompts_are_the_formula_alone_and_among_strangers(served):
    recorder, pipe = served
    model = recorder.model.name
    expected = []
    for at, (prompt, chunks) in enumerate(CASES.items()):
        asked = weighted(prompt, at)
        expected.append(stock(pipe, a_request(**asked), chunks))
        alone = engine_images(recorder, [(0, a_job("j", model=model, **asked))])["j"][0]
        assert difference(alone, expected[-1]) < 1e-5, prompt
    jobs = [
        (at, a_job(f"j{at}", at=float(at), model=model, **weighted(prompt, at)))
        for at, prompt in enumerate(CASES)
    ]
    jobs += [(1, a_job("plain", at=9.0, model=model, seed=9, steps=3))]
    together = engine_images(recorder, jobs)
    assert all(difference(together[f"j{at}"][0], each) < 1e-5 for at, each in enumerate(expected))


def told(runner, **changes):
    conditioning = runner.condition(a_request(**changes), True)
    return conditioning.text, *conditioning.added.values()


@pytest.mark.parametrize(
    "prompt", ["a red circle", "a (red:1.0) circle", r"a \(red\) circle", "x" * 75, ""]
)
@pytest.mark.parametrize("negative", [None, "", "dark"])
def test_without_weights_a_prompt_is_stock_s_bit_for_bit(served, prompt, negative):
    runner = served[0].runner
    text = prompt.replace(":1.0", "").replace("\\", "")
    text = text if "\\" in prompt else text.replace("(", "").replace(")", "")
    plain = told(runner, prompt=text, negative_prompt=negative)
    read = told(runner, prompt=prompt, negative_prompt=negative, prompt_syntax=WEIGHTED)
    assert all(torch.equal(a, b) for a, b in zip(plain, read, strict=True))


def test_brackets_of_a_plain_prompt_are_letters(served):
    runner = served[0].runner
    plain, other = (told(runner, prompt=text)[0] for text in ("a (red:1.5)", "a red"))
    assert difference(plain.detach(), other.detach()) > 1e-3


def test_a_short_prompt_is_as_long_as_what_it_is_weighed_against(served):
    runner = served[0].runner
    long = told(runner, prompt="a", negative_prompt=LONG, prompt_syntax=WEIGHTED)[0]
    alone = runner.condition(
        a_request(prompt="a", negative_prompt=LONG, prompt_syntax=WEIGHTED), False
    )
    assert long.shape[1] == 3 * 77 and alone.text.shape[1] == 77
    empty = told(runner, prompt="", negative_prompt="", prompt_syntax=WEIGHTED)[0]
    assert torch.equal(long[1, 77:154], empty[1]) and torch.equal(long[1, 154:], empty[1])


def test_layers_are_skipped_of_the_prompt_alone(served):
    runner = served[0].runner
    asked = {"prompt": "a (red:1.0)", "negative_prompt": "dark", "clip_skip": 1}
    plain = told(runner, **{**asked, "prompt": "a red"})
    read = told(runner, **asked, prompt_syntax=WEIGHTED)
    assert all(torch.equal(a, b) for a, b in zip(plain, read, strict=True))
