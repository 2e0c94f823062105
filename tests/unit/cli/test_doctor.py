from worker_app.cli import doctor
from worker_app.queue_depth import Worker


def worker(fleet: str, seconds: float = 0.0, where: str = "") -> Worker:
    return Worker(f"{fleet}@x", fleet, ("sync",), 4, {}, hub_lag_seconds=seconds, hub_blocked_in=where)


def test_blocked_hub_is_named_with_the_line_and_the_remedy_of_its_fleet() -> None:
    light = worker("worker", 6.2, "worker_app/tasks.py:33 in spin")
    heavy = worker("worker-heavy", 31.0, "metrics/daily.py:9 in add")
    is_ok, text = doctor._hub([light, worker("worker-ingest"), heavy])
    assert not is_ok
    assert text == (
        "worker@x was blocked for 6.2 s in worker_app/tasks.py:33 in spin: move CPU work to the heavy fleet; "
        "worker-heavy@x was blocked for 31 s in metrics/daily.py:9 in add: run this fleet with CELERY_POOL=prefork"
    )


def test_hub_that_was_not_blocked_is_no_fault() -> None:
    is_ok, text = doctor._hub([worker("worker"), worker("worker-heavy")])
    assert is_ok
    assert "no worker was blocked" in text
