from worker.process.queues import Queues


class Tasks:
    """Celery's consumer, which is its own channel; a pop waits for the queues of its begin."""

    def __init__(self, *names):
        self.names, self.popping = set(names), None
        self.channel = self

    def renew_pop(self):
        is_right = self.popping in (None, self.names)
        self.popping = None
        return is_right

    def consuming_from(self, queue):
        return queue in self.names


class Controller:
    """Celery's worker; its hub turns when told to."""

    def __init__(self, *names):
        self.hub, self.consumer = self, self
        self.task_consumer = Tasks(*names)
        self.calls = []

    def call_soon(self, callback, *args):
        self.calls.append((callback, args))

    def call_later(self, delay, callback, *args):
        self.calls.append((callback, args))

    def turn(self):
        calls, self.calls = self.calls, []
        for callback, args in calls:
            callback(*args)

    def add_task_queue(self, queue):
        self.task_consumer.names.add(queue)

    def cancel_task_queue(self, queue):
        self.task_consumer.names.discard(queue)


def bound(*names):
    queues, controller = Queues(names, "w@h"), Controller(*names)
    queues.bind(controller)
    return queues, controller


def test_queues_change_on_the_hubs_thread_only():
    queues, controller = bound("gen.a")
    is_applied = queues.serve(["gen.b"])
    assert controller.task_consumer.names == {"gen.a"}
    assert not is_applied.is_set()
    controller.turn()
    assert controller.task_consumer.names == {"gen.b", "gen.b@w@h"}
    assert is_applied.is_set()
    assert queues.names == ("gen.b", "gen.b@w@h")


def test_what_a_reconnect_forgot_is_asked_for_again():
    queues, controller = bound("gen.a")
    queues.serve(["gen.b"])
    controller.turn()
    controller.task_consumer = Tasks("gen.a")
    queues.assert_again()
    controller.turn()
    assert controller.task_consumer.names == {"gen.b", "gen.b@w@h"}


def test_without_a_connection_nothing_counts_as_done():
    queues, controller = bound("gen.a")
    controller.task_consumer = None
    is_applied = queues.serve(["gen.b"])
    controller.turn()
    assert not is_applied.is_set()


def test_no_exception_reaches_the_hub():
    queues, controller = bound("gen.a")
    controller.add_task_queue = lambda queue: 1 / 0
    is_applied = queues.serve(["gen.b"])
    controller.turn()
    assert not is_applied.is_set()


def test_a_queue_is_left_once_no_pop_waits_for_it():
    queues, controller = bound("gen.a")
    controller.task_consumer.popping = {"gen.a", "gen.a@w@h"}
    is_applied = queues.serve(["gen.b"])
    controller.turn()
    assert not is_applied.is_set()
    controller.turn()
    assert is_applied.is_set()
    controller.turn()
    assert not controller.calls
