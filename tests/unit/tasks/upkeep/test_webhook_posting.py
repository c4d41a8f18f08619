from storage.fakes import MemoryOutbox, MemoryStore
from storage.fakes.record import Posted
from storage.jobs.outbox import SETTLE_S, Delivery
from tasks.upkeep.webhook_posting import MAX_POSTING, WebhookPosting
from tasks.upkeep.webhook_window import LOST_S, OF_HOST, OF_TENANT

ROUND_S = 0.25
TIMEOUT_S = 15.0  #: for which a receiver that hangs holds a thread


class Service:
    """Upkeep, an outbox and CPU workers, on a clock of their own."""

    def __init__(self):
        self.now, self.num_waiting, self.sent = 1000.0, 0, []
        self.store = MemoryStore(clock=lambda: self.now)
        self.outbox = MemoryOutbox(self.store)
        self.restart()

    def restart(self):
        """Replace upkeep by another process."""
        self.posting = WebhookPosting(
            self.outbox, send=self._send, waiting=self._waiting, clock=lambda: self.now
        )

    def _send(self, delivery):
        self.sent.append((self.now, delivery))

    async def _waiting(self):
        return self.num_waiting

    def post(self, host, number=1, tenant=None, event="completed"):
        """Have a receiver told something so many times; each is a tenant's own unless told."""
        first = len(self.store.outbox)
        for n in range(first, first + number):
            url = f"https://{host}/hook/{n}"
            delivery = Delivery(
                id=f"d{n:05}",
                job_id="j",
                tenant=tenant or host,
                url=url,
                event=event,
                attempt=0,
                body="{}",
            )
            self.store.outbox[delivery.id] = Posted(delivery=delivery, at=self.now)

    async def round(self):
        """Let upkeep look once; return what it has sent."""
        before = len(self.sent)
        await self.posting.run()
        self.now += ROUND_S
        return [delivery for _, delivery in self.sent[before:]]

    async def rounds(self, seconds):
        return [each for _ in range(round(seconds / ROUND_S)) for each in await self.round()]

    async def settle(self, deliveries):
        for delivery in deliveries:
            await self.outbox.done(delivery.id)


def to(host, deliveries):
    return [each for each in deliveries if host in each.url]


async def test_every_due_webhook_is_sent_on_its_way():
    service = Service()
    service.post("a.test", 3)
    assert [(d.id, d.attempt) for d in await service.round()] == [
        ("d00000", 1),
        ("d00001", 1),
        ("d00002", 1),
    ]
    assert await service.round() == []


async def test_no_more_webhooks_are_handed_out_than_workers_have_room_for():
    service = Service()
    service.post("a.test")
    service.num_waiting = MAX_POSTING
    assert await service.round() == [], "nobody takes them: the queue would only grow"
    service.num_waiting = 0
    assert len(await service.round()) == 1


async def test_without_cpu_workers_no_tenant_fills_the_store():
    service = Service()
    service.outbox = MemoryOutbox(service.store, max_pending=10)
    service.restart()
    service.num_waiting = MAX_POSTING
    service.post("a.test", 30)
    service.post("b.test", 3)
    assert await service.round() == []
    left = [post.delivery.tenant for post in service.store.outbox.values()]
    assert (left.count("a.test"), left.count("b.test")) == (10, 3)


async def test_a_receiver_that_hangs_holds_up_its_own_webhooks_alone():
    service = Service()
    service.post("a.test", 200)
    service.post("b.test")
    sent = await service.round()
    assert (len(to("a.test", sent)), len(to("b.test", sent))) == (OF_HOST, 1)
    assert await service.rounds(5.0) == [], "none of them was settled"


async def test_a_receiver_that_hangs_hides_nobody_behind_it():
    service = Service()
    service.post("a.test", 2000)
    service.post("b.test")
    assert len(to("b.test", await service.rounds(2.0))) == 1


async def test_a_receiver_that_hangs_has_few_on_their_way_however_long_it_does():
    service = Service()
    service.post("a.test", 500)
    for _ in range(8):
        sent = await service.round()
        assert len(sent) <= OF_HOST
        await service.rounds(TIMEOUT_S)
        for delivery in sent:
            await service.outbox.retry(delivery, 300.0)
    assert len(service.sent) >= 4 * OF_HOST, "it goes on"


async def test_where_many_receivers_hang_each_has_one_on_its_way():
    service = Service()
    hosts = [f"{letter}.test" for letter in "abcdefgh"]
    for host in hosts:
        service.post(host, 20)
    assert len(await service.round()) == len(hosts) * OF_HOST
    service.num_waiting = len(hosts) * OF_HOST - 16  # all threads are held
    assert await service.rounds(LOST_S - 1.0) == []
    service.num_waiting = 0
    sent = await service.rounds(2.0)
    assert [len(to(host, sent)) for host in hosts] == [1] * len(hosts)


async def test_a_tenant_whose_receivers_hang_under_many_names_holds_up_nobody_else():
    service = Service()
    for n in range(300):
        service.post(f"{n}.evil.test", tenant="evil")
    service.post("b.test", 3)
    sent = await service.round()
    assert (len(to("evil.test", sent)), len(to("b.test", sent))) == (OF_TENANT, 3)
    service.num_waiting = 1  # no thread is free
    assert len(to("evil.test", await service.rounds(LOST_S + 1.0))) == OF_TENANT // 4


async def test_a_receiver_that_hangs_leaves_room_for_its_tenants_others():
    service = Service()
    service.post("hangs.test", 50, tenant="t")
    service.post("answers.test", 50, tenant="t")
    for _ in range(60):
        sent = await service.round()
        await service.settle(to("answers.test", sent))
    assert len(to("answers.test", [each for _, each in service.sent])) == 50
    assert len(to("hangs.test", [each for _, each in service.sent])) == OF_HOST


async def test_tenants_that_share_a_host_have_their_turns():
    service = Service()
    service.post("hooks.test", 50, tenant="greedy")
    service.post("hooks.test", 1, tenant="other")
    assert "other" in {delivery.tenant for delivery in await service.round()}


async def test_a_receiver_that_answers_at_once_gets_more_and_more_at_a_time():
    service = Service()
    service.post("a.test", 500)
    for _ in range(8):
        await service.settle(await service.round())
    assert not service.store.outbox


async def test_a_receiver_that_refuses_at_once_holds_up_nobody_and_is_not_held_up():
    service = Service()
    service.post("a.test", 200)
    for _ in range(8):
        for delivery in await service.round():
            await service.outbox.retry(delivery, 300.0)
    assert len(service.sent) == 200


async def test_a_receiver_gets_no_more_at_a_time_while_others_wait_for_a_worker():
    service = Service()
    service.post("a.test", 100)
    service.num_waiting = 1
    for _ in range(5):
        sent = await service.round()
        await service.settle(sent)
        assert len(sent) == OF_HOST


async def test_a_receiver_that_begins_to_hang_soon_has_few_on_their_way():
    service = Service()
    service.post("a.test", 500)
    for _ in range(4):
        await service.settle(await service.round())
    in_flight = await service.round()
    assert len(in_flight) > 4 * OF_HOST
    await service.rounds(TIMEOUT_S)
    for delivery in in_flight:
        await service.outbox.retry(delivery, 300.0)
    assert len(await service.round()) == OF_HOST


async def test_what_a_lost_worker_had_is_not_counted_for_long():
    service = Service()
    service.post("a.test", 50)
    assert len(await service.round()) == OF_HOST
    assert await service.rounds(LOST_S - 1.0) == []
    assert len(await service.rounds(2.0)) == OF_HOST


async def test_of_the_messages_of_a_webhook_one_at_most_is_current():
    service = Service()
    service.post("a.test", 500)
    await service.rounds(3 * SETTLE_S)
    assert len(service.sent) > len({delivery.id for _, delivery in service.sent})
    current = [each.id for _, each in service.sent if await service.outbox.current([each])]
    assert len(current) == len(set(current)) > 0


async def test_what_is_no_end_and_finds_no_room_for_long_is_not_kept_for_it():
    service = Service()
    service.post("a.test", 20, event="started")
    service.post("a.test", 20)
    sent = await service.rounds(SETTLE_S)
    assert {each.event for each in sent} == {"started"}
    on_way = {each.id for each in sent}
    left = {post.delivery.id for post in service.store.outbox.values()} - on_way
    assert left == {f"d{n:05}" for n in range(20, 40)}, "the ends of jobs alone"
    assert service.store.stats["webhooks:dropped"] == 20 - len(on_way)


async def test_every_webhook_is_delivered_although_upkeep_is_replaced():
    service = Service()
    service.post("a.test", 100)
    await service.settle(await service.round())
    service.restart()
    for _ in range(round((SETTLE_S + 5.0) / ROUND_S)):
        await service.settle(await service.round())
    assert not service.store.outbox
    ids = [delivery.id for _, delivery in service.sent]
    assert len(ids) == len(set(ids)) == 100
