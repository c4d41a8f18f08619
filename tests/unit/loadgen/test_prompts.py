import numpy as np
import pytest

from core.errors import ConfigurationError
from loadgen.prompts import MAX_LINE, prompt_set, read_prompts, write_prompts
from tests.map import ROOT


def read(tmp_path, text, name="prompts.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_prompts(path)


def test_a_line_says_prompt_class_and_quality_at_every_level(tmp_path):
    found = read(
        tmp_path,
        '{"prompt": "a star", "class": "hard", "quality": {"xl@0": 1, "m@0": 0.5}}\n'
        '{"prompt": "a ring", "class": null, "quality": {"m@0": 0.25, "xl@0": 0.75}}\n',
    )
    assert found.texts == ("a star", "a ring")
    assert found.classes == ("hard", None)
    assert found.levels == ("xl@0", "m@0")
    assert found.quality.tolist() == [[1, 0.5], [0.75, 0.25]]
    assert found.has_quality


def test_plain_lines_are_prompts_of_which_nothing_is_known(tmp_path):
    found = read(tmp_path, "a star\n\n  a ring\n")
    assert found.texts == ("a star", "a ring")
    assert not found.has_quality


@pytest.mark.parametrize("text", ['{"prompt": "a star"}\n', "a star\n", "\na star\n"])
def test_a_mark_of_the_byte_order_is_no_part_of_the_first_prompt(tmp_path, text):
    assert read(tmp_path, "\ufeff" + text).texts == ("a star",)


def test_a_level_that_a_line_leaves_out_is_not_known(tmp_path):
    found = read(tmp_path, '{"prompt": "a", "quality": {"m": 1}}\n{"prompt": "b"}')
    assert np.isnan(found.quality[1, 0])
    assert not found.has_quality


def test_what_is_written_is_read_again(tmp_path):
    text = '{"prompt":"a star","class":"x","quality":{"m@0":0.5}}\n{"prompt":"a ring"}\n'
    write_prompts(tmp_path / "again", read(tmp_path, text))
    assert (tmp_path / "again").read_text() == text


def test_plain_prompts_make_a_set():
    assert len(prompt_set(["a", "b"])) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names none"),
        ('{"prompt": "a star"}\n\n{"prompt": 7}', r"line 3.*prompt"),
        ('a star\n{"prompt": "a ring"}', r"line 1: is no JSON object.*prompt"),
        ('{"prompt": "a ring"}\n"a star"', "line 2: is no JSON object"),
        ('{"quality": {}}', r"line 1.*prompt"),
        ('{"prompt": ""}', "line 1: prompt"),
        ('{"prompt": "a", "quality": {"m@0": 1.5}}', r"line 1: quality.m@0: 1.5"),
        ('{"prompt": "a", "quality": {"m@0": "good"}}', r"line 1.*quality"),
        ('{"prompt": "a", "colour": "red"}', "line 1.*colour"),
        ('{"prompt": "a"', "line 1"),
        (b"\xff\xfe", "line 1"),
        ("x" * (MAX_LINE + 1), "line 1: more than"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path, text, said):
    with pytest.raises(ConfigurationError, match=said):
        read(tmp_path, text)


@pytest.mark.parametrize("name", ["prompts.jsonl", "prompts.json"])
@pytest.mark.parametrize("line", ["a star", '["a star"]', 'prompt: "a star"'])
def test_a_file_that_is_called_json_lines_has_no_plain_prompts(tmp_path, name, line):
    with pytest.raises(ConfigurationError, match="line 2: is no JSON object"):
        read(tmp_path, f'\n{line}\n{{"prompt": "a ring"}}\n', name)


def test_few_bytes_cannot_ask_for_much_memory(tmp_path):
    wide = ",".join(f'"l{i}": 1' for i in range(4000))
    text = f'{{"prompt": "a", "quality": {{{wide}}}}}\n' + '{"prompt": "b"}\n' * 6000
    with pytest.raises(ConfigurationError, match="too many"):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigurationError, match="absent"):
        read_prompts(tmp_path / "absent")


def test_the_prompts_of_the_zoo_have_a_class_and_a_quality_at_every_level():
    found = read_prompts(ROOT / "zoo/qualities.jsonl")
    assert len(found) == 320
    assert found.has_quality
    assert "shapes-xl@0" in found.levels
    assert None not in found.classes
