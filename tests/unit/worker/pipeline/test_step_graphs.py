import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.captured import Captures
from worker.pipeline.step_graphs import MOST_CELLS, MOST_PASSES, Pass, StepGraphs


def a_pass(rows: int = 1, value: float = 1.0, key: str = "sum", more: int = 1) -> Pass:
    """A pass of one value, whose answer depends on all that it is given, and on its key."""
    latents = torch.full((rows, 4, 8, 8), value)
    told = [torch.full((rows, at + 1), value + at) for at in range(more)]
    sign = 1 if key == "sum" else -1

    def run(inputs):
        answer = inputs[0] * 2
        for each in inputs[1:]:
            answer = answer + sign * each.sum(1)[:, None, None, None]
        return answer

    return Pass(inputs=[latents, *told], run=run, key=key)


PASSES = st.builds(
    a_pass,
    st.integers(1, 2),
    st.floats(-4, 4, width=32),
    st.sampled_from(["sum", "difference"]),
    st.integers(0, 2),
)


@given(st.lists(PASSES, max_size=12))
def test_a_replay_is_the_pass_itself(passes) -> None:
    graphs = StepGraphs(Captures())
    made = [graphs.run(each) for each in passes]
    for each, answer in zip(passes, made, strict=True):  # later ones have overwritten nothing
        torch.testing.assert_close(answer, each.run(each.inputs))


def test_a_pass_is_captured_once_when_it_comes_again() -> None:
    captures = Captures()
    graphs = StepGraphs(captures)
    for rows, made, replays in [(1, 0, 0), (2, 0, 0), (1, 1, 1), (1, 1, 2), (2, 2, 3), (1, 2, 4)]:
        graphs.run(a_pass(rows))
        assert (captures.made, captures.replays) == (made, replays)
    graphs.forget()
    graphs.run(a_pass(1))
    assert (captures.made, captures.replays) == (2, 4)


def test_many_cells_keep_a_device_busy_and_are_never_captured() -> None:
    captures = Captures()
    graphs = StepGraphs(captures)
    for rows in (MOST_CELLS // 64 + 1, MOST_CELLS // 64):
        for _ in range(3):
            graphs.run(a_pass(rows))
        assert captures.made == (rows == MOST_CELLS // 64)


def test_what_cannot_be_captured_runs_as_it_is_and_is_not_tried_again() -> None:
    captures = Captures(RuntimeError("operation not permitted when stream is capturing"))
    graphs = StepGraphs(captures)
    for value in (1.0, 2.0, 3.0):
        asked = a_pass(1, value)
        torch.testing.assert_close(graphs.run(asked), asked.run(asked.inputs))
        captures.error = captures.error if value == 1.0 else None
    assert captures.made == 0


def test_passes_that_lack_memory_are_captured_no_more_and_smaller_and_other_ones_are() -> None:
    captures = Captures(RuntimeError("CUDA out of memory. Tried to allocate"))
    graphs = StepGraphs(captures)
    for _ in range(2):
        graphs.run(a_pass(2, more=2))
    captures.error = None
    for asked, made in ((a_pass(2, more=2), 0), (a_pass(1, more=2), 1), (a_pass(2, more=1), 2)):
        assert graphs.replays(asked) == bool(made)
        for _ in range(2):
            torch.testing.assert_close(graphs.run(asked), asked.run(asked.inputs))
        assert captures.made == made


def test_what_a_pass_overwrites_of_its_inputs_is_overwritten() -> None:
    def count(inputs):
        inputs[1].add_(inputs[0].sum())
        return inputs[0] + inputs[1]

    graphs, total = StepGraphs(Captures()), torch.zeros(1)
    for value in range(1, 5):
        latents = torch.full((1, 1, 1, 1), float(value))
        made = graphs.run(Pass(inputs=[latents, total], run=count, num_changed=1))
        assert (made.item(), total.item()) == (value + total.item(), sum(range(value + 1)))


def test_graphs_of_passes_that_come_no_more_go() -> None:
    captures = Captures()
    graphs = StepGraphs(captures)
    for rows in [1, 1, *range(2, MOST_PASSES + 2), 1, 1]:
        graphs.run(a_pass(rows))
    assert (captures.made, captures.replays) == (2, 2)
