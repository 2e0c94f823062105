import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from celery.concurrency.gevent import TaskPool
from gevent import monkey
from kombu.utils import functional as kombu_functional
from psycopg2 import extensions
from structlog.testing import capture_logs

from celery_utils import PerformanceProfile, create_worker_app
from worker_app.store import postgres
from worker_app.worker import checks
from worker_app.worker.pool import GreenPool

REMAPPED = """
from billiard.common import REMAP_SIGTERM
from celery_utils import PerformanceProfile, create_worker_app
from worker_app.worker import checks

app = create_worker_app("t", PerformanceProfile(), broker_url="redis://localhost:1/0")
print(*checks._setting_faults(app), sep="\\n")
"""


def task() -> None:
    """Stands for a task of anybody."""


class Worker:
    """What a worker is before its pool starts."""

    def __init__(self, app: Any, pool: str | type = "prefork", slots: int = 4, most: int | None = None) -> None:
        self.app = app
        module = {"__module__": f"celery.concurrency.{pool}"}
        self.pool_cls = type("TaskPool", (), module) if isinstance(pool, str) else pool
        self.concurrency = slots
        self.max_concurrency = most
        self.autoscale = [most, 2] if most else None
        self.prefetch_multiplier = app.conf.worker_prefetch_multiplier
        self.max_tasks_per_child = app.conf.worker_max_tasks_per_child
        self.time_limit = app.conf.task_time_limit
        self.soft_time_limit = app.conf.task_soft_time_limit


def make_app(profile: PerformanceProfile, **settings: Any) -> Any:
    return create_worker_app("t", profile, broker_url="redis://localhost:1/0", settings=settings)


@pytest.fixture
def app() -> Any:
    return make_app(PerformanceProfile(pool="prefork"))


def faults(app: Any, **given: Any) -> list[str]:
    return checks.faults(Worker(app, **given), PerformanceProfile(pool="prefork"))


def green_faults(**settings: Any) -> list[str]:
    """The faults of a gevent worker with these settings, but for those of this process, which is no worker."""
    profile = PerformanceProfile()
    found = checks.faults(Worker(make_app(profile, **settings), pool=TaskPool), profile)
    return [fault for fault in found if not any(mark in fault for mark in ("patched", "wait callback"))]


def options(profile: PerformanceProfile, **changes: Any) -> dict[str, Any]:
    """The transport options of the profile with these changes."""
    return {**profile.celery_settings()["broker_transport_options"], **changes}


def test_worker_that_keeps_its_profile_may_start(app: Any) -> None:
    app.task(name="t.good", shared=False, time_limit=3300)(task)
    assert faults(app) == []


def test_gevent_worker_that_keeps_its_profile_may_start() -> None:
    assert green_faults() == []


def test_pool_and_slots_that_disagree_with_the_settings_are_named(app: Any) -> None:
    pool, slots = faults(app, pool="threads", slots=9)
    assert "pool threads and CELERY_POOL is prefork" in pool
    assert "9 slots and the settings say 4" in slots


@pytest.mark.parametrize("pool", ["solo", "thread", "gevent"])
def test_each_other_pool_is_named_with_its_remedy(app: Any, pool: str) -> None:
    fault = next(fault for fault in faults(app, pool=pool) if "CELERY_POOL" in fault)
    name = {"thread": "threads"}.get(pool, pool)
    assert fault == (
        f"the worker runs pool {name} and CELERY_POOL is prefork: the connections are counted for the latter; "
        "start it by `dev-hops worker`, or set CELERY_POOL too"
    )


@pytest.mark.parametrize(
    ("pool", "name"),
    [(TaskPool, "gevent"), (GreenPool, "gevent"), ("prefork", "prefork"), ("solo", "solo"), ("thread", "threads")],
)
def test_pool_has_the_name_that_the_command_line_knows(app: Any, pool: Any, name: str) -> None:
    assert checks.pool_name(Worker(app, pool=pool)) == name


def test_slots_are_the_most_of_autoscale_where_it_is_set() -> None:
    profile = PerformanceProfile(pool="prefork", autoscale=(20, 2))
    app = make_app(profile)
    assert checks.faults(Worker(app, slots=2, most=20), profile) == []
    fault, _ = checks.faults(Worker(app, slots=20, most=30), profile)
    assert fault == (
        "the worker has 30 slots and the settings say 20: connections are counted for the latter; "
        "start it by `dev-hops worker`, or set CELERY_AUTOSCALE or CELERY_CONCURRENCY too"
    )


def test_task_longer_than_the_visibility_timeout_is_refused_with_the_arithmetic(app: Any) -> None:
    app.task(name="t.long", shared=False, time_limit=3301)(task)
    (fault,) = faults(app)
    assert fault == (
        "task t.long has a hard limit of 3301 s and VISIBILITY_TIMEOUT_SECONDS is 3600: it would run twice; "
        "the most is 3300, lower it or raise the timeout"
    )


def test_task_that_is_acknowledged_early_is_refused(app: Any) -> None:
    app.task(name="t.early", shared=False, acks_late=False)(task)
    (fault,) = faults(app)
    assert fault == "task t.early is acknowledged early: a killed worker would lose it; give it acks_late"


def test_tasks_of_celery_itself_may_be_acknowledged_as_they_are() -> None:
    profile = PerformanceProfile(pool="prefork")
    found = checks.faults(Worker(make_app(profile, task_acks_late=False)), profile)
    assert not [fault for fault in found if "task celery." in fault]


def test_soft_limit_of_all_tasks_is_refused_under_gevent() -> None:
    (fault,) = green_faults(task_soft_time_limit=60)
    assert fault == (
        "task_soft_time_limit is 60: a soft limit never fires under gevent; leave it unset, "
        "give the task a deadline of its own or a hard limit"
    )


def test_soft_limit_of_a_task_is_refused_under_gevent() -> None:
    profile = PerformanceProfile()
    app = make_app(profile)
    app.task(name="t.soft", shared=False, soft_time_limit=30)(task)
    app.task(name="t.hard", shared=False, time_limit=30)(task)
    found = [fault for fault in checks.faults(Worker(app, pool=TaskPool), profile) if "soft" in fault]
    assert found == [
        "task t.soft has a soft limit of 30 s: it never fires under gevent; give it a deadline of its own or a hard limit"
    ]


def test_soft_limits_are_accepted_on_prefork() -> None:
    profile = PerformanceProfile(pool="prefork")
    app = make_app(profile, task_soft_time_limit=60)
    app.task(name="t.soft", shared=False, soft_time_limit=30)(task)
    assert checks.faults(Worker(app), profile) == []


def test_soft_shutdown_is_refused_under_gevent() -> None:
    (fault,) = green_faults(worker_soft_shutdown_timeout=10.0)
    assert fault == (
        "worker_soft_shutdown_timeout is 10.0: under gevent it waits in a signal handler and does not end; "
        "leave it 0, the drain is bounded by WORKER_DRAIN_SECONDS"
    )


def test_disabled_prefetch_is_refused_under_gevent() -> None:
    (fault,) = green_faults(worker_disable_prefetch=True)
    assert (
        fault
        == "worker_disable_prefetch is true: it makes the worker idle for two seconds per full window; leave it false"
    )


def test_remapped_sigterm_is_refused_under_gevent() -> None:
    told = subprocess.run(
        [sys.executable, "-c", REMAPPED],
        env={"REMAP_SIGTERM": "SIGQUIT"},
        capture_output=True,
        text=True,
        timeout=25,
        check=True,
    )
    assert told.stdout.strip() == (
        "REMAP_SIGTERM is SIGQUIT: under gevent Celery's cold shutdown loses what runs; unset it, SIGTERM drains"
    )


@pytest.mark.parametrize(("slots", "most", "needed"), [(4, 13, 14), (50, 10, 60), (50, 59, 60)])
def test_too_few_broker_connections_are_refused_with_the_arithmetic(slots: int, most: int, needed: int) -> None:
    profile = PerformanceProfile(pool="prefork", concurrency=slots)
    app = make_app(profile, broker_transport_options=options(profile, max_connections=most))
    (fault,) = checks.faults(Worker(app, slots=slots), profile)
    assert fault == (
        f"broker_transport_options.max_connections is {most}: {slots} slots + 10 spare = {needed} are needed; leave it out"
    )


def test_just_enough_broker_connections_are_accepted() -> None:
    profile = PerformanceProfile(pool="prefork", concurrency=50)
    app = make_app(profile, broker_transport_options=options(profile, max_connections=60))
    assert checks.faults(Worker(app, slots=50), profile) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("global_keyprefix", "shop:"),
        ("priority_steps", [0, 5]),
        ("sep", ":"),
        ("queue_order_strategy", "sorted"),
    ],
)
@pytest.mark.parametrize("pool", ["prefork", "gevent"])
def test_options_that_change_the_names_of_the_lists_are_refused_in_each_pool(pool: Any, name: str, value: Any) -> None:
    profile = PerformanceProfile(pool=pool)
    app = make_app(profile, broker_transport_options=options(profile, **{name: value}))
    worker = Worker(app, pool=TaskPool if pool == "gevent" else pool)
    (fault,) = [fault for fault in checks.faults(worker, profile) if name in fault]
    assert fault == (
        f"broker_transport_options.{name} is set: it changes the names of the lists, which `redis-cli llen`, the depth of "
        "the queues and the recovery rely on; leave it out"
    )


def test_all_faults_come_in_one_list() -> None:
    profile = PerformanceProfile()
    app = make_app(
        profile,
        task_soft_time_limit=60,
        worker_soft_shutdown_timeout=10.0,
        worker_disable_prefetch=True,
        broker_transport_options=options(profile, max_connections=5, sep=":", global_keyprefix="shop:"),
    )
    app.task(name="t.long", shared=False, time_limit=9000)(task)
    app.task(name="t.early", shared=False, acks_late=False)(task)
    found = checks.faults(Worker(app, pool=TaskPool, slots=9), profile)
    for mark in (
        "task_soft_time_limit is 60",
        "worker_soft_shutdown_timeout is 10.0",
        "worker_disable_prefetch is true",
        "9 slots and the settings say 4",
        "max_connections is 5: 4 slots + 10 spare = 14",
        "broker_transport_options.global_keyprefix",
        "broker_transport_options.sep",
        "task t.long has a hard limit of 9000 s",
        "task t.early is acknowledged early",
    ):
        assert sum(mark in fault for fault in found) == 1, mark
    assert len(found) == len(set(found))


def test_gevent_without_patching_is_refused(app: Any) -> None:
    found = checks.faults(Worker(app, pool="gevent"), PerformanceProfile())
    assert any("has not patched" in fault for fault in found) != monkey.is_module_patched("socket")


@pytest.fixture
def psycopg2_callback() -> Iterator[None]:
    """psycopg2 as it was, whatever the test has made of it."""
    was_safe = postgres.is_hub_safe()
    yield
    if not was_safe:
        extensions.set_wait_callback(None)


def test_psycopg2_that_would_stop_every_task_is_refused(psycopg2_callback: None) -> None:
    was_safe = postgres.is_hub_safe()
    text = "psycopg2 has no wait callback: a query would stop every task"
    assert (text in checks._gevent_faults()) != was_safe
    postgres.install_wait_callback()
    assert text not in checks._gevent_faults()


def test_kombu_that_sleeps_with_the_real_clock_is_refused() -> None:
    is_real = kombu_functional.sleep is monkey.get_original("time", "sleep")  # type: ignore[attr-defined]
    text = "kombu sleeps with the unpatched clock: a broker outage would stop every task"
    assert (text in checks._gevent_faults()) == is_real


def test_refusal_is_one_line_per_reason_and_the_exit_code() -> None:
    with capture_logs() as logs, pytest.raises(SystemExit) as ended:
        checks.refuse("first\nsecond", checks.EXIT_CONFIGURATION)
    assert ended.value.code == 78
    assert [(line["event"], line["reason"], line["exit_code"], line["log_level"]) for line in logs] == [
        ("worker.refused", "first", 78, "critical"),
        ("worker.refused", "second", 78, "critical"),
    ]


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        (
            "prefetch_multiplier",
            10,
            "--prefetch-multiplier is 10 and the settings say 1: leave the option out, set WORKER_PREFETCH",
        ),
        ("max_tasks_per_child", 5, "--max-tasks-per-child is 5 and the settings say 100"),
        ("time_limit", 4000.0, "--time-limit is 4000 and the settings say 3000"),
        ("autoscale", [20, 2], "--autoscale is (20, 2) and the settings say None"),
        ("soft_time_limit", 5.0, "--soft-time-limit is 5: a soft limit never fires under gevent"),
    ],
)
def test_option_of_the_command_line_that_disagrees_is_refused(option: str, value: object, said: str) -> None:
    profile = PerformanceProfile()
    worker = Worker(make_app(profile), pool=TaskPool)
    setattr(worker, option, value)
    assert [fault for fault in checks.faults(worker, profile) if fault.startswith(said)]
