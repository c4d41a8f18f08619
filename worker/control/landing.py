"""Where do the residuals of each session land in this process, and how large are they?"""

from collections.abc import Sequence

from torch import Tensor

from worker.control import wire
from worker.control.arena import Arena, Place
from worker.control.remote_session import RemoteSession
from worker.control.session import Ask, Residuals

#: What residuals of one size share.
Kind = tuple[object, ...]


class Landing:
    """The memory that ControlNet workers of this host write to."""

    def __init__(self, num_bytes: int) -> None:
        self._num_bytes = num_bytes
        self._arena = Arena(num_bytes)
        self._sizes: dict[Kind, int] = {}  #: bytes of the residuals of one step

    def place(self, session: RemoteSession, ask: Ask) -> Place | None:
        """Say where the residuals of a step go; None: behind the answer.

        Two steps go to two places, as one may be read yet. How large residuals are is known once
        anybody has got the like; the first come behind their answer.
        """
        size = self._sizes.get(_kind(session, ask))
        if size is None:
            return None
        if session.block is None:
            session.block = self._arena.take(2 * size)
        return session.block.place(ask.position % 2 * size) if session.block else None

    def residuals(
        self, session: RemoteSession, ask: Ask, answer: wire.Answer, behind: Sequence[bytes]
    ) -> Residuals:
        """Find the residuals of an answer, in their place or in what came behind it."""
        if answer.is_placed and session.block is not None:
            at = session.block.begin + ask.position % 2 * self._sizes[_kind(session, ask)]
            return _seen(answer.parts, session.block.arena.memory, at)
        self._sizes[_kind(session, ask)] = sum(of.num_bytes for of in answer.parts)
        return [wire.tensor(of, data) for of, data in zip(answer.parts, behind, strict=True)]

    def abandon(self) -> None:
        """Take later blocks elsewhere: somebody who is lost may write to these yet."""
        self._arena = Arena(self._num_bytes)


def _kind(session: RemoteSession, ask: Ask) -> Kind:
    return (session.opening.controlnet, session.rows, tuple(ask.latents.shape))


def _seen(parts: Sequence[wire.Spec], memory: object, at: int) -> list[Tensor]:
    seen = []
    for of in parts:
        seen.append(wire.view(of, memory, at))
        at += of.num_bytes
    return seen
