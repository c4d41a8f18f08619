"""Allocate shared memory for the residuals of each ControlNet session."""

from collections.abc import Sequence

from torch import Tensor

from worker.control import wire
from worker.control.client.remote_session import RemoteSession
from worker.control.session import StepQuery
from worker.control.shared_memory import Block, Place, SharedMemory
from worker.control.streamed import ArrivedResiduals

#: What residuals of one size share.
Kind = tuple[object, ...]


class Landing:
    """The memory that ControlNet workers of this host write to."""

    def __init__(self, num_bytes: int) -> None:
        self._num_bytes = num_bytes
        self._arena = SharedMemory(num_bytes)
        self._sizes: dict[Kind, int] = {}  #: bytes of the residuals of one step
        self._left: dict[str, Block] = {}  #: by session: what its worker may yet write to

    def place(self, session: RemoteSession, ask: StepQuery) -> Place | None:
        """Say where the residuals of a step go; None: behind the answer.

        Two steps go to two halves of a block, as one may be read yet. How large residuals are is
        known once anybody has got the like; the first come behind their answer.
        """
        size = self._sizes.get(_kind(session, ask))
        if size is None:
            return None
        if session.block is None:
            session.block = self._block(2 * size)
        if session.block is None:
            return None
        half = _half(session.block)
        return session.block.place(ask.position % 2 * half, half)

    def take(
        self, session: RemoteSession, ask: StepQuery, answer: wire.Answer, behind: Sequence[bytes]
    ) -> ArrivedResiduals:
        """Find the residuals of an answer, in their place or in what came behind it."""
        arrived = session.answers.setdefault(
            ask.position, ArrivedResiduals(total=answer.total, split=answer.split)
        )
        before = arrived.pass_bytes(answer.first, sum(of.num_bytes for of in answer.parts))
        if answer.is_placed and session.block is not None:
            at = session.block.begin + ask.position % 2 * _half(session.block) + before
            parts = _seen(answer.parts, session.block.arena.memory, at)
        else:
            parts = [wire.tensor(of, data) for of, data in zip(answer.parts, behind, strict=True)]
        arrived.add(answer.first, parts)
        if arrived.is_whole:
            self._sizes[_kind(session, ask)] = sum(part.nbytes for part in arrived.parts)
        return arrived

    def leave(self, session: RemoteSession) -> None:
        """Let a session go; its worker may be computing what nobody reads any more."""
        if session.block is not None:
            self._left[session.id] = session.block

    def free(self, session_id: str) -> None:
        """Give away the memory of a session whose worker has let it go too."""
        if block := self._left.pop(session_id, None):
            block.release()

    def abandon(self) -> None:
        """Take later blocks elsewhere: somebody who is lost may write to these yet."""
        self._arena = SharedMemory(self._num_bytes)
        self._left.clear()

    def _block(self, size: int) -> Block | None:
        block = self._arena.take(size)
        if block is None and self._left:  # of workers that were lost before they said so
            self.abandon()
            block = self._arena.take(size)
        return block


def _kind(session: RemoteSession, ask: StepQuery) -> Kind:
    return (session.opening.controlnet, session.rows, tuple(ask.latents.shape))


def _half(block: Block) -> int:
    """Size a place by its block: others' residuals of the same kind may have another dtype."""
    return (block.end - block.begin) // 2


def _seen(parts: Sequence[wire.Spec], memory: object, at: int) -> list[Tensor]:
    seen = []
    for of in parts:
        seen.append(wire.view(of, memory, at))
        at += of.num_bytes
    return seen
