"""How long a client waits for a job whose service is away for a moment: no clock, no network."""

import pytest

from atelier_client.errors import NoAnswer, NotFound, ServiceFailed
from atelier_client.exchange.following import MAX_RECONNECTS
from atelier_client.exchange.steps import Answer, Call, Lost, Pause
from atelier_client.resources.jobs import made, wait_for

QUEUED = Answer(status=200, body=b'{"id": "j", "status": "queued"}')
DONE = Answer(status=200, body=b'{"id": "j", "status": "succeeded"}')
GONE = Lost(reason="it is gone")
FAILING_OVER = Answer(status=503, headers={"retry-after": "2"}, body=b"{}")


class Service:
    """Answers polls in turn, the last one for ever; its clock goes on with pauses alone."""

    def __init__(self, *answers):
        self.answers, self.asked, self.pauses = list(answers), [], []

    def clock(self):
        return sum(self.pauses)

    def run(self, flow):
        heard = None
        while True:
            try:
                step = flow.send(heard)
            except StopIteration as end:
                return end.value
            heard = self._answer(step)

    def _answer(self, step):
        if isinstance(step, Pause):
            self.pauses.append(step.seconds)
            return None
        assert isinstance(step, Call)
        self.asked.append(step)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_a_job_is_waited_for_though_its_service_fails_over():
    service = Service(GONE, FAILING_OVER, QUEUED, GONE, DONE)
    assert service.run(wait_for("j", None)).status == "succeeded"
    assert service.pauses == [0.1, 2.0, 0.1]


def test_a_job_that_was_accepted_is_not_lost_with_a_poll():
    service = Service(Answer(status=202, body=QUEUED.body), FAILING_OVER, DONE)
    assert service.run(made({"prompt": "x"}, None)).id == "j"


@pytest.mark.parametrize(("refused", "error"), [(GONE, NoAnswer), (FAILING_OVER, ServiceFailed)])
def test_a_service_that_stays_away_is_told(refused, error):
    service = Service(refused)
    with pytest.raises(error):
        service.run(wait_for("j", None))
    assert len(service.asked) == MAX_RECONNECTS + 1


def test_nobody_waits_longer_than_they_said():
    service = Service(FAILING_OVER)
    with pytest.raises(ServiceFailed):
        service.run(wait_for("j", 3.0, service.clock))
    assert service.pauses == [2.0, 1.0]


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (Answer(status=404, body=b"{}"), NotFound),
        (Answer(status=503, headers={"retry-after": "3600"}, body=b"{}"), ServiceFailed),
    ],
)
def test_what_another_poll_would_not_mend_is_told_at_once(refused, error):
    service = Service(refused)
    with pytest.raises(error):
        service.run(wait_for("j", None))
    assert len(service.asked) == 1
