"""Judge which image may be what ends ControlNet workers, so that it ends three at most."""

import time
from collections.abc import Collection, Sequence

from core.errors import ControlUnavailable
from worker.control.client.remote_session import RemoteSession

#: A session whose workers are lost so often before they give it anything may be what ends them.
MOST_LOSSES = 3
#: One that may be is alone for so long, unless it is cleared before.
ALONE_S = 10.0


def charge(lost: Sequence[RemoteSession]) -> None:
    """Charge the image that had the worker alone which these sessions have lost, if one had."""
    accused = [session for session in lost if session.is_suspect] or lost
    if len({session.opening.image for session in accused}) == 1:
        for session in accused:  # of several images nobody can say which it was
            _charge(session)


def clear(session: RemoteSession, sessions: Collection[RemoteSession]) -> None:
    """Note that a session got what it asked for: its image need not be alone."""
    session.num_losses = 0
    for each in sessions:
        if each.opening.image is session.opening.image:
            each.is_suspect = False


def is_held_back(session: RemoteSession, sessions: Collection[RemoteSession]) -> bool:
    """Tell whether a suspect waits for another image that may end a worker to be alone."""
    now, image = time.monotonic(), session.opening.image
    return session.is_suspect and any(
        each.is_suspect and each.num_offers and now - each.waits_since < ALONE_S
        for each in sessions
        if each.opening.image is not image
    )


def _charge(session: RemoteSession) -> None:
    session.num_losses += 1
    if session.num_losses >= MOST_LOSSES:
        session.error = ControlUnavailable(
            f"{MOST_LOSSES} ControlNet workers were lost with this job, one after the other"
        )
