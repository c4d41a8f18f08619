"""Learned embeddings are as stock's `load_textual_inversion` reads them, and each tenant's own."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from catalog.lora.parse import parse
from core.errors import EngineError
from core.request.prompt_syntax import PromptSyntax
from core.uploads.embedding import AppliedEmbedding
from tests.jobs import a_job, a_request
from tests.loras import TEXT, as_bytes, factors, save_peft
from tests.models import OF_DIFFUSERS, make_tokenizer, save_sd, save_sdxl
from tests.stock import (
    difference,
    engine_images,
    load_recorder,
    load_stock,
    stock_image,
)
from worker.diffusion.runner import WordInputs
from worker.lora.mix import PLAIN, Lora, Mix
from worker.text.learned import known, learn

pytestmark = pytest.mark.filterwarnings(OF_DIFFUSERS)

#: Word -> how many vectors it has.
WORDS = {"<cat>": 1, "easy-neg": 3, "<Dog>": 2}
SAID = [
    {"prompt": "a <cat> in the sun"},
    {"prompt": "a red circle", "negative_prompt": "dark, easy-neg"},
    {"prompt": "<Dog> and <cat>", "negative_prompt": "easy-neg"},
    {"prompt": "a <CAT>, <dog>"},
    {"prompt": "a <cat>", "guidance": 1.0},
]


@pytest.mark.parametrize("said", ["EasyNegative", "easynegative", "EASYNEGATIVE"])
def test_a_word_in_any_case_is_all_of_its_tokens_in_order(said):
    tokenizer = make_tokenizer()
    cat, own = len(tokenizer), range(len(tokenizer) + 1, len(tokenizer) + 9)
    words = [("<cat>", torch.zeros(1, 4)), ("EasyNegative", torch.ones(8, 4))]
    vocabulary = learn(tokenizer, words)
    a, comma, two, b = (known(tokenizer).ids(text) for text in ("a", ",", "2", "b"))
    assert vocabulary.ids(said) == [*own]
    expected = [*a, *own, *comma, cat, *own, *two, *b]
    assert vocabulary.ids(f"a {said}, <Cat>{said}2 b") == expected


def test_what_a_word_is_spelled_as_is_no_word_again():
    """`a-b` is within `a-b-c`, and the name of a second vector may be followed by digits."""
    tokenizer = make_tokenizer()
    first, one = len(tokenizer), known(tokenizer).ids("1")
    words = [("a-B", torch.zeros(2, 4)), ("a-b-C", torch.zeros(12, 4))]
    short, long = range(first, first + 2), range(first + 2, first + 14)
    ids = learn(tokenizer, words).ids("A-b-c1 a-b1")
    assert ids == [*long, *one, *short, *one]


def applied(word):
    return AppliedEmbedding(
        id=word, key="k", models=(), token=word, num_vectors=WORDS[word], sha256=""
    )


def vectors_of(word, encoders):
    draws = np.random.default_rng(list(word.encode()))
    return tuple(draws.normal(size=(WORDS[word], 32)).astype(np.float32) for _ in range(encoders))


@pytest.fixture(scope="module", params=["sd", "sdxl"])
def served(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / request.param
    model = {"sd": save_sd, "sdxl": save_sdxl}[request.param](folder)
    pipe = load_stock(folder)
    pipe.set_progress_bar_config(disable=True)
    parts = [(pipe.tokenizer, pipe.text_encoder)]
    parts += [(pipe.tokenizer_2, pipe.text_encoder_2)] if request.param == "sdxl" else []
    for word in WORDS:
        own = vectors_of(word, len(parts))
        for (tokenizer, encoder), table in zip(parts, own, strict=True):
            pipe.load_textual_inversion(
                {word: torch.from_numpy(table)},
                token=word.lower(),
                tokenizer=tokenizer,
                text_encoder=encoder,
            )
    return load_recorder(folder, model), pipe, len(parts)


def asked(said, at=0):
    text = " ".join(str(each) for each in said.values()).lower()
    words = [word for word in WORDS if word.lower() in text]
    return {**said, "embeddings": tuple(map(applied, words)), "seed": at, "steps": 3}


def brought(request, encoders):
    return WordInputs(vectors={e.id: vectors_of(e.token, encoders) for e in request.embeddings})


def images(recorder, jobs, encoders):
    inputs = {job.id: brought(job.request, encoders) for _, job in jobs if job.request.embeddings}
    return engine_images(recorder, jobs, inputs=inputs)


def test_learned_words_are_stock_s_alone_and_among_strangers(served):
    """Stock has words and prompts in lower case: with a capital it reads a first vector alone."""
    recorder, pipe, encoders = served
    model, own = recorder.model.name, pipe.scheduler
    expected, jobs = [], []
    for at, said in enumerate(SAID):
        job = a_job(f"j{at}", at=float(at), model=model, **asked(said, at))
        expected.append(stock_image(pipe, own, in_lower_case(job.request)))
        alone = images(recorder, [(0, job)], encoders)[job.id][0]
        assert difference(alone, expected[-1]) < 1e-5, said
        jobs.append((at, job))
    jobs.append((1, a_job("plain", at=9.0, model=model, seed=9, steps=3)))
    together = images(recorder, jobs, encoders)
    assert all(difference(together[f"j{at}"][0], each) < 1e-5 for at, each in enumerate(expected))


def in_lower_case(request):
    negative = request.negative_prompt and request.negative_prompt.lower()
    return replace(request, prompt=request.prompt.lower(), negative_prompt=negative)


def test_nobody_else_s_words_are_read(served):
    recorder, _, encoders = served
    runner = recorder.runner
    with_word = a_request(**asked(SAID[0]))
    vocabulary = len(runner.pipe.tokenizer)
    weights = runner.pipe.text_encoder.get_input_embeddings().weight.clone()
    before = runner.open(replace_words(with_word), 0).conditioning.text
    learned = runner.open(with_word, 0, brought(with_word, encoders)).conditioning.text
    runner.prompts.clear()
    after = runner.open(replace_words(with_word), 0).conditioning.text
    assert torch.equal(before, after) and difference(before[1:], learned[1:]) > 1e-3
    assert len(runner.pipe.tokenizer) == vocabulary
    assert torch.equal(runner.pipe.text_encoder.get_input_embeddings().weight, weights)


def replace_words(request):
    return a_request(prompt=request.prompt, seed=request.seed, steps=request.steps)


def test_two_that_keep_one_word_for_different_things_are_told_apart(served):
    recorder, _, encoders = served
    runner = recorder.runner
    mine = applied("<cat>")
    texts = []
    for scale, name in ((1, "a"), (2, "b")):
        other = AppliedEmbedding(**{**_fields(mine), "id": name})
        request = a_request(prompt="a <cat>", embeddings=(other,))
        vectors = tuple(scale * table for table in vectors_of("<cat>", encoders))
        texts.append(runner.open(request, 0, WordInputs(vectors={name: vectors})).conditioning.text)
    assert difference(texts[0][1], texts[1][1]) > 1e-3


def _fields(embedding):
    names = ("id", "key", "models", "token", "num_vectors", "sha256")
    return {name: getattr(embedding, name) for name in names}


def test_learned_words_are_weighed_and_chunked_like_any(served):
    recorder, _, encoders = served
    runner = recorder.runner
    weighted = {"prompt_syntax": PromptSyntax.WEIGHTED}
    plain = a_request(**asked({"prompt": "a easy-neg"}))
    one = a_request(**asked({"prompt": "a (easy-neg:1.0)"}), **weighted)
    two = a_request(**asked({"prompt": "a (easy-neg:1.5) " + "b " * 73}), **weighted)
    texts = [
        runner.open(each, 0, brought(each, encoders)).conditioning.text
        for each in (plain, one, two)
    ]
    assert torch.equal(texts[0], texts[1])
    assert texts[2].shape[1] == 2 * 77


def test_a_word_that_was_not_brought_fails_its_image(served):
    request = a_request(prompt="a <new>", embeddings=(applied_as("<new>"),))
    with pytest.raises(EngineError, match="<new> is not at hand"):
        served[0].runner.open(request, 0)


def applied_as(word):
    return AppliedEmbedding(**{**_fields(applied("<cat>")), "id": word, "token": word})


def test_what_is_pooled_is_where_the_prompt_ends(tmp_path):
    """Of an encoder that names no end of prompts, stock pools the newest word instead."""
    model = save_sdxl(tmp_path / "tiny")
    runner = load_recorder(tmp_path / "tiny", model).runner
    request = a_request(**asked({"prompt": "<cat> a"}))
    vectors = brought(request, 2)
    expected = runner.open(request, 0, vectors).conditioning.added["text_embeds"]
    runner.prompts.clear()
    runner.pipe.text_encoder_2.text_model.eos_token_id = 2
    found = runner.open(request, 0, vectors).conditioning.added["text_embeds"]
    assert torch.equal(found, expected)


@pytest.mark.filterwarnings("ignore:Already found a `peft_config` attribute:UserWarning")
def test_a_lora_of_the_text_encoders_reads_learned_words(tmp_path):
    model = save_sdxl(tmp_path / "tiny")
    runner, pipe = load_recorder(tmp_path / "tiny", model).runner, load_stock(tmp_path / "tiny")
    shapes = runner.overlays.adapters.shapes
    file = save_peft(tmp_path / "ink.safetensors", factors(shapes, TEXT, seed=2))
    data = file.read_bytes()
    mix = Mix.of([(Lora.of("ink", as_bytes(data), parse(data, shapes)), 1.0)])
    request = a_request(**asked(SAID[2]))
    told = in_lower_case(request)  # as stock finds all vectors
    pipe.load_lora_weights(str(file))
    for word in WORDS:
        for at, name in enumerate(("", "_2")):
            pipe.load_textual_inversion(
                {word: torch.from_numpy(vectors_of(word, 2)[at])},
                token=word.lower(),
                tokenizer=getattr(pipe, f"tokenizer{name}"),
                text_encoder=getattr(pipe, f"text_encoder{name}"),
            )
    with torch.no_grad():
        text, negative, *_ = pipe.encode_prompt(told.prompt, negative_prompt=told.negative_prompt)
    runner.learned.keep(brought(request, 2).vectors)
    found = runner.begin(request, 0, None, mix).conditioning.text
    without = runner.begin(request, 0, None, PLAIN).conditioning.text
    assert difference(found, torch.cat([negative, text])) < 1e-5
    assert difference(found, without) > 1e-3
