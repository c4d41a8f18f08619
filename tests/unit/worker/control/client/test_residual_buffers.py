import torch

from worker.control import wire
from worker.control.client.remote_session import RemoteSession
from worker.control.client.residual_buffers import Landing
from worker.control.session import Opening, StepQuery

NUMBERS = 64  #: in the residuals of a step
HALF = torch.bfloat16


def a_session():
    none = torch.zeros(1)
    opening = Opening(controlnet="edges", condition=none, text=none, added={})
    return RemoteSession(owner=None, opening=opening, waits_since=0.0)


def step(session, position):
    latents = torch.zeros(1, 4, 8, 8)
    return StepQuery(session=session, position=position, time=1.0, latents=latents, scale=1.0)


def answer(position, residuals, *, is_placed):
    return wire.Answer(
        session="s",
        position=position,
        total=1,
        split=0,
        first=0,
        parts=(wire.spec(residuals),),
        is_placed=is_placed,
        held_s=0.0,
    )


def take_behind(landing, session, position, residuals):
    head, *behind = wire.frames(answer(position, residuals, is_placed=False), [residuals])
    return landing.take(session, step(session, position), wire.read_to_base(head), behind)


def fill(place, of, memory, value):
    wire.view(of, memory, place.at).fill_(value)


def test_places_of_a_session_stay_in_its_block_when_another_s_residuals_are_larger():
    landing = Landing(4096)
    take_behind(landing, a_session(), 0, torch.zeros(NUMBERS, dtype=HALF))
    session, neighbour = a_session(), a_session()
    landing.place(session, step(session, 0))
    landing.place(neighbour, step(neighbour, 0))
    block, residuals = session.block, torch.full((NUMBERS,), 3.0, dtype=HALF)
    asked = landing.place(session, step(session, 1))
    fill(asked, wire.spec(residuals), block.arena.memory, 3.0)

    take_behind(landing, a_session(), 0, torch.zeros(NUMBERS, dtype=torch.float32))

    place = landing.place(session, step(session, 3))
    assert block.begin <= place.at
    assert place.at + residuals.nbytes <= block.end <= neighbour.block.begin
    told = answer(1, residuals, is_placed=True)
    assert torch.equal(landing.take(session, step(session, 1), told, ()).parts[0], residuals)


def test_two_steps_of_a_session_never_share_memory_when_another_s_residuals_are_smaller():
    landing = Landing(4096)
    take_behind(landing, a_session(), 0, torch.zeros(NUMBERS, dtype=torch.float32))
    session = a_session()
    even = landing.place(session, step(session, 0))
    take_behind(landing, a_session(), 0, torch.zeros(NUMBERS, dtype=HALF))
    odd = landing.place(session, step(session, 1))
    assert even.room == odd.room == odd.at - even.at == 4 * NUMBERS
