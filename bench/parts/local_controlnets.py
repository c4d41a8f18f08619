"""ControlNets in the process of the base model, for parity tests and benches."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from worker.control.server.model_cache import ModelCache
from worker.control.server.network import Begun, ControlStep, Network
from worker.control.session import Opening, Residuals, StepQuery
from worker.control.streamed import Streamed


@dataclass(slots=True, kw_only=True, eq=False)
class LocalSession:
    """One image and one ControlNet of this process."""

    controlnet: str
    network: Network
    begun: Begun
    residents: ModelCache[Network]
    answers: dict[int, Residuals] = field(default_factory=dict)  #: of the last two steps
    is_closed: bool = False

    @property
    def is_slow(self) -> bool:
        return False

    def waits_for(self) -> None:
        """Wait for nothing: what is asked for is computed here."""
        return None

    def close(self) -> None:
        """Give the network back, once."""
        if not self.is_closed:
            self.is_closed = True
            self.residents.release(self.controlnet)


class LocalControlNets:
    """The ControlNets of this process."""

    def __init__(self, residents: ModelCache[Network]) -> None:
        self._residents = residents
        self._asked: list[tuple[LocalSession, StepQuery]] = []

    def open(self, opening: Opening) -> LocalSession:
        """Take the network and embed the condition of an image."""
        network = self._residents.take(opening.controlnet)
        return LocalSession(
            controlnet=opening.controlnet,
            network=network,
            begun=network.begin(opening),
            residents=self._residents,
        )

    def ask(self, asks: Sequence[StepQuery]) -> None:
        """Note which steps are wanted; nothing is computed yet."""
        fresh = [ask for ask in asks if ask.position not in _local(ask).answers]
        self._asked = [(_local(ask), ask) for ask in fresh]

    def answer(self, ask: StepQuery) -> Streamed:
        """Compute all noted steps in one call, and give those of one session."""
        if self._asked:
            asked, self._asked = self._asked, []
            _compute(asked)
        session = _local(ask)
        answer = session.answers[ask.position]
        return Streamed(len(answer), answer.__getitem__, session.network.split)


def _local(ask: StepQuery) -> LocalSession:
    assert isinstance(ask.session, LocalSession)
    return ask.session


def _compute(asked: Sequence[tuple[LocalSession, StepQuery]]) -> None:
    """Compute what was asked, each ControlNet for all images that are alike in one call."""
    networks = dict.fromkeys(session.network for session, _ in asked)
    for network in networks:
        own = [(session, ask) for session, ask in asked if session.network is network]
        steps = [
            ControlStep(begun=session.begun, latents=ask.latents, time=ask.time, scale=ask.scale)
            for session, ask in own
        ]
        for members in _alike(steps):
            answers = network.residuals([steps[at] for at in members])
            for at, residuals in zip(members, answers, strict=True):
                session, ask = own[at]
                before = {at: own for at, own in session.answers.items() if at == ask.position - 1}
                session.answers = {**before, ask.position: residuals}


def _alike(steps: Sequence[ControlStep]) -> Iterator[list[int]]:
    """Number the steps that can share a call, one group after another."""

    def key(index: int) -> str:
        return repr(steps[index].begun.group)

    for _, members in groupby(sorted(range(len(steps)), key=key), key):
        yield list(members)
