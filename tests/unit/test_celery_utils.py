import ast
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest
from celery.app.defaults import NAMESPACES, flatten

import celery_utils
from celery_utils import PerformanceProfile, ProfileError, create_broker_app, create_worker_app

URL = "redis://localhost:1/0"


def app_of(**changes: Any) -> Any:
    return create_worker_app("t", PerformanceProfile(**changes), broker_url=URL, queues=["default", "celery"])


def test_profile_reaches_celery_under_its_own_names() -> None:
    conf = app_of().conf
    assert conf.worker_prefetch_multiplier == 1
    assert conf.worker_max_tasks_per_child == 100
    assert conf.result_expires == 3600
    assert conf.result_backend_max_retries == 3
    assert conf.result_backend_always_retry is True
    assert conf.result_backend_thread_safe is True
    assert conf.broker_pool_limit == 10
    assert conf.redis_max_connections == 50
    assert conf.task_acks_late is True
    assert conf.task_reject_on_worker_lost is True
    assert conf.task_ignore_result is True


def test_events_that_nobody_reads_are_not_sent_and_do_not_pile_up() -> None:
    conf = app_of().conf
    assert (conf.worker_send_task_events, conf.task_send_sent_event) == (False, False)
    assert (conf.event_queue_ttl, conf.event_queue_expires) == (5, 60)


def test_connections_are_derived_from_the_slots() -> None:
    profile = PerformanceProfile(autoscale=(60, 2))
    assert (profile.slots, profile.broker_connections, profile.result_connections, profile.sql_pool_size) == (
        60,
        70,
        70,
        65,
    )
    options = app_of(autoscale=(60, 2)).conf.broker_transport_options
    assert options["max_connections"] == 70
    assert options["visibility_timeout"] == 3600


def test_concurrency_counts_when_autoscale_is_not_set() -> None:
    assert PerformanceProfile(concurrency=7).slots == 7
    assert PerformanceProfile(concurrency=7, autoscale=(3, 1)).slots == 3


def test_explicit_lower_limit_is_refused_and_a_sufficient_one_kept() -> None:
    with pytest.raises(ProfileError, match=r"50 slots \+ 10 spare = 60"):
        PerformanceProfile(concurrency=50, redis_max_connections=59)
    assert PerformanceProfile(concurrency=50, redis_max_connections=60).result_connections == 60


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"visibility_timeout_seconds": 3299}, "visibility_timeout_seconds"),
        ({"autoscale": (2, 20)}, "autoscale is 2,20"),
        ({"autoscale": (20, 0)}, "autoscale is 20,0"),
        ({"pool": "threads", "autoscale": (20, 2)}, "threads"),
        ({"concurrency": 0}, "concurrency is 0"),
        ({"disable_prefetch": True}, "disable_prefetch"),
    ],
)
def test_contradiction_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ProfileError, match=word):
        PerformanceProfile(**changes)


def test_all_faults_come_out_at_once() -> None:
    with pytest.raises(ProfileError) as caught:
        PerformanceProfile(prefetch_multiplier=0, autoscale=(1, 2), visibility_timeout_seconds=1)
    assert len(str(caught.value).splitlines()) == 3


def test_profile_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        PerformanceProfile().concurrency = 5  # type: ignore[misc]


@pytest.mark.parametrize("item", fields(PerformanceProfile), ids=lambda item: item.name)
def test_every_field_says_what_it_prevents_whether_gevent_honours_it_and_its_source(item: Any) -> None:
    assert len(item.metadata["prevents"]) > 20
    assert item.metadata["gevent"] in ("yes", "no", "by us")
    assert item.metadata["source"].startswith("https://docs.celeryq.dev/")


def test_every_named_celery_setting_is_one_that_celery_knows() -> None:
    known = {name for name, _ in flatten(NAMESPACES)}
    named = {
        item.metadata["celery"].partition(".")[0] for item in fields(PerformanceProfile) if item.metadata["celery"]
    }
    assert named - known == {"result_backend_thread_safe"}  # read by Celery.backend, missing in its own table


def test_memory_limit_is_given_in_kibibytes() -> None:
    assert app_of(max_memory_per_child_mb=200).conf.worker_max_memory_per_child == 204_800


def test_queue_that_was_not_declared_is_not_born() -> None:
    app = app_of()
    with pytest.raises(Exception, match="typo"):
        app.amqp.router.route({"queue": "typo"}, "t.task")


def test_broker_app_has_no_result_backend() -> None:
    app = create_broker_app("t", broker_url=URL, queues=["default"])
    assert app.conf.broker_url == URL
    assert app.conf.result_backend is None


def test_file_imports_nothing_of_ours() -> None:
    tree = ast.parse(Path(celery_utils.__file__).read_text())
    imported = {
        (node.module or "").partition(".")[0]
        if isinstance(node, ast.ImportFrom)
        else node.names[0].name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert imported <= {"celery", "kombu"} | set(sys.stdlib_module_names)
