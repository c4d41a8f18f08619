import pytest

from core.errors import ConfigurationError
from loadgen.arrivals import constant
from loadgen.ask import make_asks
from loadgen.trace import parse_trace, read_trace

PROMPTS = ["a red circle", "a blue square"]


def test_a_row_says_when_and_what():
    (ask,) = parse_trace(["at_s,prompt,steps,model", "1.5,a green star,12,"], PROMPTS)
    assert (ask.at_s, ask.prompt) == (1.5, "a green star")
    assert ask.body == {"prompt": "a green star", "steps": 12, "seed": 0}


def test_rows_without_a_prompt_take_turns():
    asks = parse_trace(["at_s", "0", "1", "2"], PROMPTS)
    assert [ask.prompt for ask in asks] == ["a red circle", "a blue square", "a red circle"]


def test_rows_are_played_in_the_order_of_their_time():
    asks = parse_trace(["at_s", "2", "0.5", "1"], PROMPTS)
    assert [ask.at_s for ask in asks] == [0.5, 1.0, 2.0]


def test_a_trace_played_twice_as_fast_takes_half_the_time(tmp_path):
    path = tmp_path / "trace.csv"
    path.write_text("at_s\n2\n4\n")
    assert [ask.at_s for ask in read_trace(path, PROMPTS, speed=2.0)] == [1.0, 2.0]


def test_what_a_row_leaves_open_is_what_the_command_line_says():
    asks = parse_trace(["at_s,steps,model", "0,12,", "1,,b"], PROMPTS, {"model": "a", "steps": 4})
    assert [(ask.body["model"], ask.body["steps"]) for ask in asks] == [("a", 12), ("b", 4)]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (["prompt", "x"], "at_s"),
        (["at_s,colour", "1,red"], "colour"),
        (["at_s,steps", "1,5", "2,many"], "line 3"),
        (["at_s", "soon"], "line 2"),
        (["at_s", "nan"], "line 2"),
        (["at_s", "inf"], "line 2"),
        (["at_s", "-1"], "line 2"),
        ([], "at_s"),
    ],
)
def test_a_trace_that_cannot_be_read_says_where(lines, named):
    with pytest.raises(ConfigurationError, match=named):
        parse_trace(lines, PROMPTS)


def test_every_ask_has_an_image_seed_of_its_own():
    asks = make_asks(constant(5, 2), PROMPTS, {"steps": 4}, seed=10)
    assert [ask.body["seed"] for ask in asks] == list(range(10, 20))
    assert {ask.prompt for ask in asks} == set(PROMPTS)


def test_a_seed_that_was_asked_for_stands():
    (ask,) = make_asks(constant(1, 1), PROMPTS, {"seed": 7}, seed=0)
    assert ask.body["seed"] == 7
