from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from celery import signals
from structlog.testing import capture_logs

from worker_app.worker.drain import Reason
from worker_app.worker.recycle import JITTER, NO_LIMIT_BYTES, Recycle, container_bytes, most_bytes

PLENTY = 1 << 60

MakeRecycle = Callable[..., tuple[Recycle, list[Reason]]]


@pytest.fixture
def watched() -> Iterator[MakeRecycle]:
    """Makes recycles that have begun to watch, each with the list of what it asked for."""
    made: list[Recycle] = []

    def make(*, tasks: int = 100, most: int = PLENTY, age: float = 0.0) -> tuple[Recycle, list[Reason]]:
        asked: list[Reason] = []
        recycle = Recycle(asked.append, most_tasks=tasks, most_bytes=most, least_age_seconds=age)
        recycle.start()
        made.append(recycle)
        return recycle, asked

    yield make
    for recycle in made:
        signals.task_postrun.disconnect(recycle._count)
        recycle._greenlet.kill()


def do_tasks(count: int) -> None:
    for _ in range(count):
        signals.task_postrun.send(sender=None, task_id="any")


def let_pass(recycle: Recycle, seconds: float) -> None:
    """Time, without waiting for it."""
    recycle._began_at -= seconds
    recycle._looked_at -= seconds


@pytest.fixture
def limits(tmp_path: Path) -> tuple[Path, Path]:
    """The files of cgroup v2 and v1; neither is there yet."""
    return tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"


@pytest.mark.parametrize(
    ("version_2", "version_1", "found"),
    [
        (None, None, None),
        ("max\n", None, None),
        ("536870912\n", None, 536870912),
        ("536870912", "1073741824\n", 536870912),
        ("max\n", "1073741824\n", 1073741824),
        (None, "1073741824\n", 1073741824),
        (None, "9223372036854771712\n", None),
        (None, f"{NO_LIMIT_BYTES}\n", None),
        (None, f"{NO_LIMIT_BYTES - 1}\n", NO_LIMIT_BYTES - 1),
        ("", None, None),
        ("-1\n", None, None),
        ("many\n", None, None),
    ],
)
def test_memory_of_the_container_is_what_its_cgroup_says(
    limits: tuple[Path, Path], version_2: str | None, version_1: str | None, found: int | None
) -> None:
    for path, text in zip(limits, (version_2, version_1), strict=True):
        if text is not None:
            path.write_text(text)
    assert container_bytes(limits) == found


def test_folder_in_the_place_of_a_limit_is_no_limit(limits: tuple[Path, Path]) -> None:
    limits[0].mkdir()
    assert container_bytes(limits) is None


def test_limit_that_is_set_wins(limits: tuple[Path, Path]) -> None:
    limits[0].write_text("536870912\n")
    assert most_bytes(300, 20, limits) == 300_000_000


def test_container_is_used_up_to_85_per_cent(limits: tuple[Path, Path]) -> None:
    limits[0].write_text("1000000000\n")
    assert most_bytes(None, 20, limits) == 850_000_000


@pytest.mark.parametrize(("slots", "megabytes"), [(1, 280), (20, 650), (100, 2210)])
def test_rule_of_the_profile_holds_where_nothing_bounds_the_process(
    limits: tuple[Path, Path], slots: int, megabytes: int
) -> None:
    limits[0].write_text("max\n")
    assert most_bytes(None, slots, limits) == megabytes * 10**6


def test_task_limits_of_many_processes_lie_ten_per_cent_around_the_limit_and_apart() -> None:
    limits = {Recycle(print, most_tasks=2000, most_bytes=1, least_age_seconds=0)._most_tasks for _ in range(300)}
    assert min(limits) >= 2000 * (1 - JITTER)
    assert max(limits) <= 2000 * (1 + JITTER)
    assert len(limits) > 100
    assert max(limits) - min(limits) > 2000 * JITTER


def test_smallest_task_limit_is_one_task() -> None:
    limits = {Recycle(print, most_tasks=1, most_bytes=1, least_age_seconds=0)._most_tasks for _ in range(50)}
    assert limits == {1}


def test_process_that_has_done_its_tasks_asks_once(watched: MakeRecycle) -> None:
    recycle, asked = watched(tasks=10)
    with capture_logs() as logs:
        for _ in range(30):
            let_pass(recycle, 1)
            do_tasks(1)
    assert asked == ["tasks"]
    ((event, tasks, most),) = [(line["event"], line["tasks"], line["most"]) for line in logs]
    assert (event, tasks) == ("recycle.tasks", most)
    assert 9 <= most <= 11


def test_process_that_is_too_large_asks_once_whatever_its_age(watched: MakeRecycle) -> None:
    recycle, asked = watched(most=1, age=3600)
    with capture_logs() as logs:
        for _ in range(3):
            let_pass(recycle, 1)
            do_tasks(1)
    assert asked == ["memory"]
    assert [(line["event"], line["tasks"]) for line in logs] == [("recycle.memory", 1)]


def test_process_that_is_both_asks_for_one_reason(watched: MakeRecycle) -> None:
    recycle, asked = watched(most=1, tasks=1)
    for _ in range(5):
        let_pass(recycle, 1)
        do_tasks(3)
    assert asked == ["memory"]


def test_process_that_is_within_its_limits_asks_for_nothing(watched: MakeRecycle) -> None:
    recycle, asked = watched(tasks=100)
    for _ in range(80):
        let_pass(recycle, 1)
        do_tasks(1)
    assert asked == []


def test_young_process_waits_until_it_is_old_enough(watched: MakeRecycle) -> None:
    recycle, asked = watched(tasks=5, age=60)
    do_tasks(50)
    let_pass(recycle, 30)
    do_tasks(1)
    assert asked == []
    let_pass(recycle, 31)
    do_tasks(1)
    assert asked == ["tasks"]


def test_tiny_tasks_are_not_each_a_look(watched: MakeRecycle) -> None:
    recycle, asked = watched(tasks=5)
    do_tasks(1)
    do_tasks(50)
    assert asked == []
    let_pass(recycle, 1)
    do_tasks(1)
    assert asked == ["tasks"]


def test_nothing_is_counted_before_it_starts() -> None:
    asked: list[Reason] = []
    Recycle(asked.append, most_tasks=1, most_bytes=1, least_age_seconds=0)
    do_tasks(5)
    assert asked == []
