"""The default command: what process it becomes, read from outside, and what it says to values that cannot be."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import psutil
import pytest

from tests.containers import IMAGE, Container, Yard, docker, wait_for

POOLS = (None, "gevent", "prefork")
AUTOSCALES = (None, "", "20,2")
CONCURRENCIES = (None, "7")
COMBINATIONS = list(product(POOLS, AUTOSCALES, CONCURRENCIES))
ABSENT = {  # stores that are not there: a worker becomes Celery and waits for its schema
    "DATABASE_URL": "postgresql://u:canary-5a1@127.0.0.1:1/n",
    "REDIS_URL": "redis://:canary-5a1@127.0.0.1:1/0",
    "SCHEMA_WAIT_SECONDS": "600",
    "METRICS_PORT": "0",
}


def given(pool: str | None, autoscale: str | None, concurrency: str | None) -> dict[str, str]:
    values = {"CELERY_POOL": pool, "CELERY_AUTOSCALE": autoscale, "CELERY_CONCURRENCY": concurrency}
    return {name: value for name, value in values.items() if value is not None}


def expected(pool: str | None, autoscale: str | None, concurrency: str | None) -> list[str]:
    slots = ["--autoscale", autoscale] if autoscale else ["--concurrency", concurrency or "4"]
    return ["worker", "--pool", pool or "gevent", *slots, "--queues"]


def family(first: psutil.Process) -> list[list[str]]:
    """The command lines of a container's first process and of all that come from it, as the host sees them."""
    found = []
    for process in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # of a probe, which ends at any moment
            found.append(process.cmdline())
    return found


def become_celery(container: Container) -> list[list[str]]:
    """The command lines once the worker has become Celery."""
    first = psutil.Process(container.state["Pid"])  # asked for once: each question starts a program
    wait_for(lambda: any("celery" in argv for argv in family(first)[1:]), f"{container.name} becomes Celery")
    return family(first)


def watched(yard: Yard, environment: dict[str, str]) -> list[list[str]]:
    """The command lines of one worker that is started for it and removed again."""
    container = yard.run(IMAGE, name="argv", environment=environment)
    try:
        return become_celery(container)
    finally:
        container.remove()


def test_every_combination_becomes_one_process_with_the_command_line_that_celery_takes(images: Yard) -> None:
    if not Path("/proc/self/cmdline").exists():
        pytest.skip("needs /proc of the host that runs the engine")
    with ThreadPoolExecutor(4) as several:
        seen = list(several.map(lambda chosen: watched(images, ABSENT | given(*chosen)), COMBINATIONS))
    assert len(seen) == 18
    for chosen, found in zip(COMBINATIONS, seen, strict=True):
        init, celery = found
        assert init[0] == "/usr/bin/tini"
        assert celery[1:5] == ["-m", "celery", "--app", "worker_app"]
        assert celery[5:11] == expected(*chosen), chosen
        assert "" not in celery
        assert "canary" not in str(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CELERY_POOL", "eventlet"),
        ("CELERY_AUTOSCALE", "20"),
        ("CELERY_AUTOSCALE", "2,20"),
        ("CELERY_CONCURRENCY", "many"),
        ("CELERY_CONCURRENCY", "0"),
        ("DEV_HOPS_FLEET", "workers"),
        ("CREDENTIAL_KEYS_FILE", "/run/secrets/none"),
    ],
)
def test_wrong_value_ends_with_78_and_one_line_that_names_it(images: Yard, name: str, value: str) -> None:
    code, said = images.finished(IMAGE, environment=ABSENT | {name: value})
    assert code == 78
    (line,) = said.splitlines()
    assert name in line
    assert value in line
    assert "canary" not in line


def test_all_wrong_values_are_named_at_once(images: Yard) -> None:
    wrong = {"CELERY_POOL": "eventlet", "WORKER_DRAIN_SECONDS": "soon", "LOG_LEVEL": "LOUD"}
    code, said = images.finished(IMAGE, environment=ABSENT | wrong)
    assert code == 78
    assert [any(name in line for line in said.splitlines()) for name in wrong] == [True] * 3


def test_roles_start_by_their_first_argument_and_programs_as_they_are(images: Yard) -> None:
    assert images.finished(IMAGE, "--version")[1].startswith("dev-hops, version ")
    assert images.finished(IMAGE, "sh", "-c", "id -u; pwd") == (0, "10001\n/app\n")
    assert images.finished(IMAGE, "/bin/cat", "/proc/1/comm") == (0, "tini\n")


def test_renamed_sigterm_is_removed_before_anything_reads_it(images: Yard) -> None:
    code, said = images.finished(IMAGE, "sh", "-c", "env", environment={"REMAP_SIGTERM": "SIGQUIT"})
    assert code == 0
    assert "REMAP_SIGTERM is SIGQUIT: removed" in said
    assert "REMAP_SIGTERM=" not in said


def test_image_names_its_signal_its_user_and_its_check() -> None:
    form = "{{.Config.StopSignal}} {{.Config.User}} {{json .Config.Healthcheck.Test}} {{json .Config.Entrypoint}}"
    assert docker("image", "inspect", "--format", form, IMAGE).split() == [
        "SIGTERM",
        "10001:10001",
        '["CMD","/app/bin/probe","alive"]',
        '["/usr/bin/tini","--","/app/bin/entrypoint"]',
    ]
