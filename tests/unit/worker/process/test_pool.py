import pytest
from billiard.einfo import ExceptionInfo
from billiard.exceptions import Terminated

from core.errors import EngineError, JobCanceled, LeaseLost, StoreUnavailable
from worker.jobs.claimed import JobEnding, leave, take
from worker.process.pool import TimeLimit, pool_of


class FakeExecutor:
    """Takes everything and ends nothing by itself."""

    def __init__(self):
        self.taken, self.left, self.stopped = {}, {}, {}
        self.answer, self.finishing, self.is_released = True, 0, False
        self.late = set()  #: jobs that take longer than a shutdown may
        self.instead = None  #: the job whose turn it is, whatever a message names
        self.refused = []

    def take(self, job_id, on_end, rung="", on_left=None):
        if isinstance(self.answer, Exception):
            raise self.answer
        self.taken[job_id], self.left[job_id] = on_end, on_left
        return (self.instead or job_id) if self.answer else None

    def refuse(self, job_id):
        self.refused.append(job_id)

    def stop(self, job_id, reason):
        self.stopped[job_id] = reason

    @property
    def hand_over(self):
        return self

    def let_go(self):
        self.is_released = True
        return len(self.taken)

    def let_go_late(self, within_s):
        self.within_s = within_s
        return self.late

    def num_finishing(self):
        return self.finishing


class Hub:
    """Runs what is due when told to turn."""

    def __init__(self):
        self.soon, self.later = [], []

    def call_soon(self, callback, *args):
        self.soon.append((callback, args))

    def call_later(self, delay, callback, *args):
        timer = Timer(delay, callback, args)
        self.later.append(timer)
        return timer

    def turn(self):
        soon, self.soon = self.soon, []
        for callback, args in soon:
            callback(*args)


class Timer:
    def __init__(self, delay, callback, args):
        self.delay, self.callback, self.args, self.is_canceled = delay, callback, args, False

    def cancel(self):
        self.is_canceled = True


class Task:
    """What Celery hands over with one message, and what it hears back."""

    def __init__(self, job_id="j1", **limits):
        self.job_id, self.limits = job_id, limits
        self.heard = []

    def trace(self, name, task_id, *_):
        try:
            return (0, take(task_id), 0.0)
        except Exception:
            return (1, ExceptionInfo(), 0.0)

    def give_to(self, pool):
        args = ("tasks.generate", self.job_id, {}, "", "", "")
        return pool.apply_async(
            self.trace,
            args=args,
            callback=lambda result: self.heard.append(("ended", result[0], result[1])),
            error_callback=lambda info: self.heard.append(("error", info.exception)),
            accept_callback=lambda pid, began: self.heard.append(("accepted", pid)),
            timeout_callback=lambda soft, limit: self.heard.append(("timeout", soft, limit)),
            **self.limits,
        )


@pytest.fixture
def pool():
    pool = pool_of(FakeExecutor(), 0.2)(4)
    pool.register_with_event_loop(Hub())
    pool.start()
    return pool


def end(pool, job_id, **ending):
    pool.executor.taken[job_id](JobEnding(**ending))
    pool._hub.turn()


def test_a_task_is_accepted_at_once_and_succeeds_when_its_job_has_ended(pool):
    task = Task()
    task.give_to(pool)
    assert task.heard == [("accepted", 1)]
    end(pool, "j1", images=2)
    assert task.heard[1:] == [("ended", 0, 2)]


def test_a_job_that_failed_is_a_failed_task(pool):
    task = Task()
    task.give_to(pool)
    end(pool, "j1", error=EngineError("no"))
    kind, failed, info = task.heard[1]
    assert (kind, failed) == ("ended", 1)
    assert isinstance(info.exception, EngineError) or "no" in str(info.exception)


@pytest.mark.parametrize("error", [JobCanceled("canceled"), LeaseLost("lost")])
def test_a_job_that_was_stopped_is_a_revoked_task(pool, error):
    task = Task()
    task.give_to(pool)
    end(pool, "j1", error=error)
    kind, told = task.heard[1]
    assert (kind, type(told.exc)) == ("error", Terminated)


def test_a_second_message_is_dropped_without_a_claim_to_success(pool):
    pool.executor.answer = False
    task = Task()
    task.give_to(pool)
    assert [h[0] for h in task.heard] == ["error"]


def test_a_store_that_is_away_does_not_raise_into_the_hub(pool):
    pool.executor.answer = StoreUnavailable("away")
    task = Task()
    task.give_to(pool)
    assert [h[0] for h in task.heard] == ["error"]
    assert pool._handles == {}


def test_nothing_a_callback_raises_reaches_the_hub(pool):
    task = Task()
    task.trace = lambda *args: 1 / 0
    task.give_to(pool)
    end(pool, "j1", images=1)
    assert pool._handles == {}


def test_a_revoked_task_leaves_the_engine_and_hears_no_more(pool):
    task = Task()
    handle = task.give_to(pool)
    pool.terminate_job(handle.pid, 15)
    handle.terminate(15)
    assert isinstance(pool.executor.stopped["j1"], JobCanceled)
    end(pool, "j1", error=JobCanceled("revoked"))
    assert task.heard == [("accepted", 1)]


def test_a_soft_limit_warns_and_then_fails_the_task(pool):
    task = Task(soft_timeout=1.0)
    task.give_to(pool)
    timer = pool._hub.later[0]
    timer.callback(*timer.args)
    assert ("timeout", True, 1.0) in task.heard
    end(pool, "j1", error=pool.executor.stopped["j1"])
    assert task.heard[-1][:2] == ("ended", 1)


def test_a_hard_limit_ends_the_task_at_once(pool):
    task = Task(timeout=2.0)
    task.give_to(pool)
    timer = pool._hub.later[0]
    timer.callback(*timer.args)
    assert task.heard[-1] == ("timeout", False, 2.0)
    assert isinstance(pool.executor.stopped["j1"], TimeLimit)
    end(pool, "j1", error=pool.executor.stopped["j1"])
    assert task.heard[-1] == ("timeout", False, 2.0)
    assert timer.is_canceled


def test_a_slot_is_free_once_its_job_only_waits_to_be_stored(pool):
    assert pool.num_processes == 4
    pool.executor.finishing = 3
    assert pool.num_processes == 7
    pool.executor.finishing = 9
    assert pool.num_processes == 8


def test_the_hub_turns_when_a_job_leaves_its_slots_and_asks_for_another(pool):
    Task().give_to(pool)
    assert not pool._hub.soon
    pool.executor.left["j1"]()
    assert len(pool._hub.soon) == 1
    pool._hub.turn()


def test_a_warm_shutdown_completes_what_ends_meanwhile(pool):
    task = Task()
    task.give_to(pool)
    pool.executor.taken["j1"](JobEnding(images=1))
    pool.on_stop()
    assert task.heard[-1] == ("ended", 0, 1)


def test_a_shutdown_does_not_wait_for_what_takes_too_long(pool):
    task = Task()
    task.give_to(pool)
    pool.executor.late = {"j1"}
    pool.on_stop()
    assert pool.executor.within_s == 0.2
    assert not pool.executor.is_released  # nothing is left to give back
    assert len(task.heard) == 1  # that it was accepted


def test_what_is_not_made_in_time_after_all_goes_back(pool):
    Task().give_to(pool)
    pool.on_stop()
    assert pool.executor.is_released


def test_a_cold_shutdown_gives_the_jobs_back_and_waits_for_none(pool):
    Task().give_to(pool)
    pool.let_go()
    pool.on_stop()
    assert pool.executor.is_released


def test_growing_and_shrinking_change_nothing(pool):
    pool.grow(3)
    pool.shrink(2)
    assert pool.num_processes == 4
    assert pool.info["in-flight"] == 0


def test_how_a_job_ended_is_taken_once():
    leave("j", JobEnding(images=3))
    assert take("j") == 3
    with pytest.raises(EngineError, match="no engine"):
        take("j")
    leave("j", JobEnding(error=LeaseLost("gone")))
    with pytest.raises(LeaseLost):
        take("j")
