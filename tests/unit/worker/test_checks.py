from typing import Any

import pytest
from gevent import monkey

from celery_utils import PerformanceProfile, create_worker_app
from worker_app.worker import checks


def task() -> None:
    """Stands for a task of anybody."""


class Worker:
    """What a worker is before its pool starts."""

    def __init__(self, app: Any, pool: str = "prefork", slots: int = 4) -> None:
        self.app = app
        self.pool_cls = type("TaskPool", (), {"__module__": f"celery.concurrency.{pool}"})
        self.concurrency = slots
        self.max_concurrency = None


@pytest.fixture
def app() -> Any:
    return create_worker_app("t", PerformanceProfile(pool="prefork"), broker_url="redis://localhost:1/0")


def faults(app: Any, **given: Any) -> list[str]:
    return checks.faults(Worker(app, **given), PerformanceProfile(pool="prefork"))


def test_worker_that_keeps_its_profile_may_start(app: Any) -> None:
    app.task(name="t.good", shared=False, time_limit=3300)(task)
    assert faults(app) == []


def test_pool_and_slots_that_disagree_with_the_settings_are_named(app: Any) -> None:
    pool, slots = faults(app, pool="threads", slots=9)
    assert "pool threads and CELERY_POOL is prefork" in pool
    assert "9 slots and the settings say 4" in slots


def test_task_longer_than_the_visibility_timeout_is_refused_with_the_arithmetic(app: Any) -> None:
    app.task(name="t.long", shared=False, time_limit=3301)(task)
    (fault,) = faults(app)
    assert "t.long has a hard limit of 3301 s" in fault
    assert "the most is 3300" in fault


def test_task_that_is_acknowledged_early_is_refused(app: Any) -> None:
    app.task(name="t.early", shared=False, acks_late=False)(task)
    (fault,) = faults(app)
    assert "t.early" in fault


def test_gevent_without_patching_is_refused(app: Any) -> None:
    found = checks.faults(Worker(app, pool="gevent"), PerformanceProfile())
    assert any("has not patched" in fault for fault in found) != monkey.is_module_patched("socket")
