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


def answer(position, residuals, *, is_placed, first=0, total=1):
    return wire.Answer(
        session="s",
        position=position,
        total=total,
        split=0,
        first=first,
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


def test_who_goes_on_with_another_precision_is_read_where_it_writes():
    landing, session = Landing(4096), a_session()
    take_behind(landing, a_session(), 0, torch.zeros(2 * NUMBERS))
    landing.place(session, step(session, 0))
    lost, ours = torch.full((NUMBERS,), 1.0, dtype=HALF), torch.full((NUMBERS,), 2.0)

    def give(residuals, first):
        place = landing.place(session, step(session, 0))
        at = place.at + first * residuals.nbytes
        wire.view(wire.spec(residuals), session.block.arena.memory, at).copy_(residuals)
        told = answer(0, residuals, is_placed=True, first=first, total=2)
        return landing.take(session, step(session, 0), told, ())

    give(lost, 0)
    session.block = None  # as for whoever begins it again
    give(ours, 0)
    arrived = give(3 * ours, 1)

    assert arrived.is_whole
    assert torch.equal(arrived.parts[0], lost)
    assert torch.equal(arrived.parts[1], 3 * ours)
