import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.intake.rules import fault_of, is_short
from api.intake.tokenizers import ModelTokenizers
from core.errors import ConfigurationError


def bytes_of_clip():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(others))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder as older pipelines ship it: vocabulary and merges alone."""
    folder = tmp_path_factory.mktemp("model")
    letters = bytes_of_clip()
    words = [*letters, *(letter + "</w>" for letter in letters), "<|endoftext|>", "re", "red</w>"]
    for name, merges in (("tokenizer", ["r e", "re d</w>"]), ("tokenizer_2", [])):
        (folder / name).mkdir()
        vocabulary = {word: index for index, word in enumerate(words)}
        (folder / name / "vocab.json").write_text(json.dumps(vocabulary))
        (folder / name / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]))
    return folder


@pytest.fixture(scope="module")
def tokens(folder):
    return ModelTokenizers({"m": [folder / "tokenizer", folder / "tokenizer_2"]})


def test_tokens_are_counted_without_begin_and_end(tokens, folder, tmp_path):
    (tmp_path / "tokenizer").symlink_to(folder / "tokenizer")
    one = ModelTokenizers({"m": [tmp_path / "tokenizer"]})
    assert one.count("m", "red") == 1
    assert one.count("m", "  RED   red ") == 2
    assert one.count("m", "") == 0


def test_the_encoder_that_reads_most_decides(tokens):
    assert tokens.count("m", "red") == 3


def test_a_model_without_a_tokenizer_has_no_limit(tmp_path):
    assert ModelTokenizers({"noop": [tmp_path / "tokenizer"]}).count("noop", "x " * 1000) == 0


def test_a_tokenizer_that_cannot_be_read_ends_the_process_naming_it(tmp_path):
    (tmp_path / "tokenizer").mkdir()
    with pytest.raises(ConfigurationError, match=str(tmp_path)):
        ModelTokenizers({"m": [tmp_path / "tokenizer"]})


@given(st.text(alphabet=st.characters(max_codepoint=127), max_size=80))
def test_a_short_prompt_never_has_more_tokens_than_characters(tokens, text):
    if is_short(text, 80):
        assert tokens.count("m", text) <= len(text)


@pytest.mark.parametrize("text", ["a\x00", "\x07", "a\x0b", "\x1b[0m", "\x7f", "\x9f"])
def test_control_characters_are_found(text):
    assert "control character" in fault_of(text, 100)


@pytest.mark.parametrize("text", ["a\tb\r\n", "é", "日本", "👩‍🎨", "a" * 100])
def test_ordinary_text_is_fine(text):
    assert fault_of(text, 100) is None
