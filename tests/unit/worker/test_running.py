"""What is counted of a task, and what its log lines say, in the words of a message that anybody may have sent."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from worker_app import telemetry
from worker_app.worker import message_context, running

ROUNDS = 20


@pytest.fixture(autouse=True)
def no_context() -> Iterator[None]:
    structlog.contextvars.clear_contextvars()
    yield
    structlog.contextvars.clear_contextvars()


def task(name: str = "worker_app.tasks.rescue", queue: object = "scheduler", **request: Any) -> Any:
    given = {
        "id": "t1",
        "root_id": "r1",
        "retries": 0,
        "eta": None,
        "headers": None,
        "kwargs": {},
        "correlation_id": "c1",
        "delivery_info": {"routing_key": queue},
    }
    return SimpleNamespace(name=name, request=SimpleNamespace(**(given | request)))


def value(metric: Any, *labels: str) -> float:
    return float(metric.labels(*labels)._value.get())


def waits(queue: str) -> float:
    found = (sample for metric in telemetry.TASK_QUEUE_WAIT.collect() for sample in metric.samples)
    return sum(item.value for item in found if item.name.endswith("_count") and item.labels["queue"] == queue)


def run(one: Any, state: str = "SUCCESS", now: float = 200.0) -> dict[str, Any]:
    """Begin and end it; what was bound between."""
    running._on_start(one.request.id, one, lambda: now)
    bound = structlog.contextvars.get_contextvars()
    running._on_end(one.request.id, one, state)
    return bound


def test_lines_say_for_what_a_task_works_and_nothing_afterwards() -> None:
    carried = {"org_id": "o1", "provider": "git", "run_id": "u1", "batch_id": "b1", "traceparent": "00-1", "lang": "py"}
    bound = run(task(retries=2, headers=carried, kwargs={"epoch": 7}))
    assert bound == {
        "task": "rescue",
        "task_id": "t1",
        "root_id": "r1",
        "queue": "scheduler",
        "attempt": 3,
        "correlation_id": "c1",
        "org_id": "o1",
        "provider": "git",
        "run_id": "u1",
        "batch_id": "b1",
        "traceparent": "00-1",
        "epoch": 7,
    }
    assert structlog.contextvars.get_contextvars() == {}


def test_what_a_foreign_task_was_given_is_not_in_lines() -> None:
    bound = run(task("shop.pay", "celery", kwargs={"card": "4711"}, headers={"run_id": "x" * 1000}))
    assert "card" not in bound
    assert len(bound["run_id"]) == message_context.LONGEST


@pytest.mark.parametrize("queue", ["made-up-by-somebody", None, "", 7])
def test_queue_that_is_not_ours_adds_no_label(queue: object) -> None:
    before = value(telemetry.TASKS_STARTED, "rescue", running.OTHER_QUEUE)
    run(task(queue=queue))
    assert value(telemetry.TASKS_STARTED, "rescue", running.OTHER_QUEUE) == before + 1


@pytest.mark.parametrize(
    ("state", "counter"),
    [
        ("SUCCESS", telemetry.TASKS_SUCCEEDED),
        ("IGNORED", telemetry.TASKS_SUCCEEDED),
        ("RETRY", telemetry.TASKS_RETRIED),
        ("REJECTED", telemetry.TASKS_REJECTED),
        ("FAILURE", telemetry.TASKS_FAILED),
    ],
)
def test_end_of_a_task_is_counted_by_its_state(state: str, counter: Any) -> None:
    before = value(counter, "rescue", "scheduler")
    run(task(), state)
    assert value(counter, "rescue", "scheduler") == before + 1


@pytest.mark.parametrize(
    ("request_", "seconds"),
    [
        ({"headers": {"enqueued_at": 190.0}}, 10.0),
        ({"headers": {"enqueued_at": 100.0}, "eta": "1970-01-01T00:03:15"}, 5.0),  # the countdown was over at 195
        ({"headers": {"enqueued_at": 210.0}}, 0.0),  # a clock that is ahead
    ],
)
def test_wait_is_from_when_a_message_might_run(request_: dict[str, Any], seconds: float) -> None:
    before, total = waits("reports"), telemetry.TASK_QUEUE_WAIT.labels("reports")._sum.get()
    run(task(queue="reports", **request_))
    assert waits("reports") == before + 1
    assert telemetry.TASK_QUEUE_WAIT.labels("reports")._sum.get() - total == pytest.approx(seconds)


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"headers": {"enqueued_at": "soon"}},
        {"headers": {"enqueued_at": 1.0}, "eta": "tomorrow"},
        {"headers": {"enqueued_at": 1.0}, "delivery_info": {"routing_key": "reports", "redelivered": True}},
    ],
)
def test_wait_that_nobody_can_tell_is_not_counted(request_: dict[str, Any]) -> None:
    before = waits("reports")
    run(task(**{"queue": "reports", **request_}))
    assert waits("reports") == before


def test_tasks_that_run_at_once_bind_each_their_own() -> None:
    met, mixed = threading.Barrier(ROUNDS), []

    def work(number: int) -> None:
        one = task(id=f"t{number}", kwargs={"epoch": number})
        running._on_start(one.request.id, one, lambda: 0.0)
        met.wait(10)
        bound = structlog.contextvars.get_contextvars()
        if (bound["task_id"], bound["epoch"]) != (f"t{number}", number):
            mixed.append(number)
        met.wait(10)
        running._on_end(one.request.id, one, "SUCCESS")
        if structlog.contextvars.get_contextvars():
            mixed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(ROUNDS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(20)
    assert mixed == []
    assert telemetry.WORKER_TASKS_ACTIVE._value.get() == 0


def test_message_that_no_task_can_be_made_of_is_counted_by_a_name_of_ours_alone() -> None:
    sender = SimpleNamespace(app=SimpleNamespace(tasks={"worker_app.tasks.rescue": object()}))
    for name, label in (("worker_app.tasks.rescue", "rescue"), ("shop.pay", "unknown"), (None, "unknown")):
        before = value(telemetry.TASKS_REJECTED, label, "celery")
        message = SimpleNamespace(headers={"task": name}, delivery_info={"routing_key": "celery"})
        running._on_rejected(sender, message, exc=None)
        assert value(telemetry.TASKS_REJECTED, label, "celery") == before + 1
