import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.pre_tokenizers import Metaspace

from api.intake.draft import fault_of
from api.intake.tokenizers import MAX_BYTES, ModelTokenizers, read_tokenizers
from api.intake.words.prompts import is_short
from core.errors import ConfigurationError
from core.model import Model


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


@pytest.mark.parametrize("name", ["merges.txt", "special_tokens_map.json"])
def test_a_file_that_workers_would_read_without_end_is_refused(folder, tmp_path, name):
    shutil.copytree(folder / "tokenizer", tmp_path / "tokenizer")
    with (tmp_path / "tokenizer" / name).open("wb") as hole:
        hole.truncate(MAX_BYTES + 1)
    with pytest.raises(ConfigurationError, match=name):
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


def test_layers_are_those_of_the_shortest_clip_encoder(tmp_path):
    for name, config in (
        ("text_encoder", {"num_hidden_layers": 12}),
        ("text_encoder_2", {"num_hidden_layers": 32}),
        ("text_encoder_3", {"num_layers": 24}),
    ):
        (tmp_path / "xl" / name).mkdir(parents=True)
        (tmp_path / "xl" / name / "config.json").write_text(json.dumps(config))
    models = {name: Model(name=name, family="sdxl") for name in ("xl", "none")}
    read = read_tokenizers(tmp_path, models)
    assert (read.layers("xl"), read.layers("none")) == (12, None)


def test_t5_counts_by_a_tokenizer_of_its_own(tmp_path):
    for family, folder in (("flux", "tokenizer_2"), ("sd3", "tokenizer_3")):
        pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581a", -1.0)]
        saved = tmp_path / family / folder
        saved.mkdir(parents=True)
        unigram = Tokenizer(Unigram(pieces, 2))
        unigram.pre_tokenizer = Metaspace()
        unigram.save(str(saved / "tokenizer.json"))
    names = {"flux": "flux", "sd3": "sd3", "without": "sd3", "xl": "sdxl"}
    models = {name: Model(name=name, family=family) for name, family in names.items()}
    read = read_tokenizers(tmp_path, models)
    assert [read.count_t5(name, "a a a") for name in names] == [3, 3, None, None]
    assert [read.count(name, "a a a") for name in names] == [0, 0, 0, 0]
