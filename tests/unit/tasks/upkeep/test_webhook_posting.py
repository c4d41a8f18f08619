from storage.jobs.outbox import Delivery
from tasks.upkeep.webhook_posting import MAX_POSTING, WebhookPosting

DELIVERY = Delivery(id="d", job_id="j", url="", event="completed", attempt=1, body="{}")


class Due:
    def __init__(self, *deliveries):
        self.deliveries = list(deliveries)

    async def due(self, now=None, limit=100):
        taken, self.deliveries = self.deliveries, []
        return taken


async def test_every_due_webhook_is_sent_on_its_way():
    sent = []

    async def waiting():
        return 0

    await WebhookPosting(Due(DELIVERY), send=sent.append, waiting=waiting).run()
    assert sent == [DELIVERY]


async def test_no_more_webhooks_are_handed_out_than_workers_have_room_for():
    sent, num_waiting = [], MAX_POSTING

    async def waiting():
        return num_waiting

    posting = WebhookPosting(Due(DELIVERY), send=sent.append, waiting=waiting)
    await posting.run()
    assert not sent, "nobody takes them: the queue would only grow"
    num_waiting = 0
    await posting.run()
    assert sent == [DELIVERY]
