import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.prompts.syntax import MAX_WEIGHT, WeightedPart, num_chunks, parse, plain
from core.errors import PromptRefused


@pytest.mark.parametrize(
    ("prompt", "parts"),
    [
        ("a red circle", [("a red circle", 1)]),
        ("a (red) circle", [("a ", 1), ("red", 1.1), (" circle", 1)]),
        ("a (red:1.3) circle", [("a ", 1), ("red", 1.3), (" circle", 1)]),
        ("a (red : 1.3 ) circle", [("a ", 1), ("red ", 1.3), (" circle", 1)]),
        ("a (red:-.5)", [("a ", 1), ("red", -0.5)]),
        ("[red]", [("red", 1 / 1.1)]),
        ("((red) circle)", [("red", 1.1 * 1.1), (" circle", 1.1)]),
        ("((red:2) circle:0.5)", [("red", 1.0), (" circle", 0.5)]),
        ("([red])", [("red", 1 / 1.1 * 1.1)]),
        ("(red:1.0) circle", [("red circle", 1)]),
        (r"\(red\) \[a\] \\", [(r"(red) [a] " + "\\", 1)]),
        (r"(a\):1.2)", [("a)", 1.2)]),
        ("a) red] (circle", [("a) red] ", 1), ("circle", 1.1)]),
        ("a: red:1.3)", [("a: red:1.3)", 1)]),
        ("(a:b:1.2)", [("a:b", 1.2)]),
        (r"c:\dir", [(r"c:\dir", 1)]),
        ("BREAKFAST and a BREAKdown", [("BREAKFAST and a BREAKdown", 1)]),
    ],
)
def test_weights_are_read_as_other_front_ends_write_them(prompt, parts):
    [section] = parse(prompt)
    kept = [part for part in section if part.text]
    assert [part.text for part in kept] == [text for text, _ in parts]
    assert [part.weight for part in kept] == pytest.approx([weight for _, weight in parts])


def test_breaks_begin_sections_and_brackets_reach_over_them():
    assert parse("(a BREAK b:2) BREAK c") == (
        (WeightedPart("a", 2.0),),
        (WeightedPart("b", 2.0), WeightedPart("", 1.0)),
        (WeightedPart("c", 1.0),),
    )


def test_spaces_beside_a_break_are_no_words():
    prompt = "  a  BREAK \n BREAK  b BREAKs  "
    assert parse(prompt) == tuple((WeightedPart(each),) for each in ("  a", "", "b BREAKs  "))


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("a cat AND a dog", "composes"),
        ("<lora:ink:1>", "'loras'"),
        ("[a:b:0.5]", "square brackets"),
        ("[a|b]", "square brackets"),
        ("(a:1.2.3)", "no number"),
        ("(a:11)", "a weight of 11"),
        ("(" * 30 + "a", "multiply must be"),
        ("(a)b" * 200, "at most 256"),
        ("((cat:" + "9" * 309 + "):0)", "a weight of nan"),
    ],
)
def test_what_means_something_else_elsewhere_is_refused(prompt, reason):
    with pytest.raises(PromptRefused, match=reason):
        parse(prompt)


texts = st.text(alphabet="ab ()[]:.1\\|BREAK,", max_size=40)


@given(texts)
def test_any_prompt_is_read_or_refused(prompt):
    try:
        sections = parse(prompt)
    except PromptRefused as error:
        assert str(error)
        return
    assert sections and all(abs(p.weight) <= MAX_WEIGHT for each in sections for p in each)


@given(st.text(alphabet=st.characters(exclude_characters="()[]\\"), max_size=40))
def test_what_has_no_brackets_and_no_breaks_is_plain(prompt):
    if "BREAK" not in prompt and "AND" not in prompt and "<l" not in prompt and prompt:
        assert parse(prompt) == plain(prompt)


@given(st.text(max_size=40))
def test_what_is_escaped_is_plain(prompt):
    if "BREAK" in prompt or "AND" in prompt or "<" in prompt or not prompt:
        return
    escaped = "".join("\\" + char if char in "()[]\\" else char for char in prompt)
    assert parse(escaped) == plain(prompt)


@pytest.mark.parametrize(
    ("tokens", "chunks"), [([], 1), ([0], 1), ([75], 1), ([76], 2), ([3, 0, 80], 3)]
)
def test_chunks_are_counted_by_section(tokens, chunks):
    assert num_chunks(tokens, 75) == chunks
