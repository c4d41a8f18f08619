import json

import pytest
from transformers import CLIPTokenizer

from zoo.architecture import MAX_TOKENS
from zoo.scenes import LEVELS, prompts
from zoo.tokenizer import END, build, corpus, learn_merges, vocabulary, write_legacy_files


@pytest.fixture(scope="module")
def merges():
    return learn_merges(corpus(seed=0, per_level=300))


@pytest.fixture(scope="module")
def tokenizer(merges):
    return build(merges, END)


def test_the_vocabulary_is_in_the_order_of_clip(merges):
    tokens = vocabulary(merges)
    assert list(tokens.values()) == list(range(len(tokens)))
    assert list(tokens)[-2:] == ["<|startoftext|>", "<|endoftext|>"]


@pytest.mark.parametrize("level", LEVELS)
def test_captions_come_back_from_their_tokens(tokenizer, level):
    for caption in prompts(level, 50, seed=1):
        ids = tokenizer(caption).input_ids
        assert len(ids) <= MAX_TOKENS
        spoken = tokenizer.decode(ids, skip_special_tokens=True)
        assert spoken.replace(" ,", ",") == caption


def test_every_word_of_a_caption_is_one_token(tokenizer):
    words = {word for level in LEVELS for text in prompts(level, 100, 2) for word in text.split()}
    assert all(len(tokenizer(word.strip(",")).input_ids) == 3 for word in words)


def test_words_outside_the_grammar_are_spelt_not_lost(tokenizer):
    ids = tokenizer("Zebra").input_ids
    assert tokenizer.decode(ids, skip_special_tokens=True).replace(" ", "") == "zebra"


def test_a_saved_tokenizer_also_has_the_older_files(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    write_legacy_files(tokenizer, tmp_path)
    assert json.loads((tmp_path / "vocab.json").read_text()) == tokenizer.get_vocab()
    again = CLIPTokenizer.from_pretrained(tmp_path)
    caption = prompts(5, 1, seed=0)[0]
    assert again(caption).input_ids == tokenizer(caption).input_ids
