"""How a worker in its container ends, and what becomes of its work: told to, killed, out of memory."""

import time
from collections.abc import Iterator

import pytest

from tests.containers import Container, docker, wait_for
from tests.image.slow_sync import GIT, PAGE, PAGES, SlowSync, slow_sync
from tests.image.stage import HARDENED, Stage

KILLED = 128 + 9
OUT_OF_MEMORY = "import time; held = [bytearray(1 << 20) for _ in range(4096)]; time.sleep(60)"


@pytest.fixture
def sync(stage: Stage) -> Iterator[SlowSync]:
    with slow_sync(stage) as made:
        yield made


def begun(sync: SlowSync, **changes: str) -> Container:
    """A worker with autoscale 4,1 whose batch has written one page and stands in the second."""
    worker = sync.stage.worker(options=sync.options, CELERY_AUTOSCALE="4,1", **GIT, **changes)
    sync.ask()
    sync.wait_for_the_first_page()
    assert sync.commits() == PAGE
    return worker


def finished_by_another(sync: SlowSync) -> None:
    """Another worker, and a beat that looks for lost ones, bring the run to its end, each page read once."""
    sync.stage.role("beat")
    sync.stage.worker(options=sync.options, **GIT)
    sync.wait_for_its_end()
    assert sync.commits() == PAGE * PAGES
    assert sync.batch("records") == PAGE * PAGES  # a batch that began anew would have counted its first page twice


def test_stopped_worker_hands_its_batch_on_at_its_cursor_and_ends_with_0(sync: SlowSync) -> None:
    with sync.held():
        worker = begun(sync, WORKER_DRAIN_SECONDS="60")
        worker.kill("TERM")
        worker.wait_for_log("drain.began")
    assert worker.exit_code() == 0
    assert "drain.ended" in worker.logs()
    assert sync.stage.unacked() == 0
    assert sync.batch("attempt") == 0
    assert sync.batch("lease_owner") is None
    finished_by_another(sync)
    assert sync.batch("attempt") == 0


def test_stopped_worker_gives_back_what_does_not_end_in_time(sync: SlowSync) -> None:
    with sync.held():
        worker = begun(sync, WORKER_DRAIN_SECONDS="2")
        worker.stop(60)
        assert worker.exit_code() == 0
        assert sync.stage.unacked() == 0
    finished_by_another(sync)


def test_sigquit_gives_everything_back_at_once(sync: SlowSync) -> None:
    with sync.held():
        worker = begun(sync, WORKER_DRAIN_SECONDS="240")
        worker.kill("QUIT")
        assert worker.exit_code() == 0
        assert sync.stage.unacked() == 0
    finished_by_another(sync)


def test_killed_worker_is_followed_by_a_second_attempt_from_the_cursor(sync: SlowSync) -> None:
    with sync.held():
        worker = begun(sync)
        worker.kill("KILL")
        assert worker.exit_code() == KILLED
    finished_by_another(sync)
    assert sync.batch("attempt") == 1  # faults so far


def test_worker_that_ran_out_of_memory_is_followed_as_a_killed_one(sync: SlowSync) -> None:
    limit = ("--memory=256m", "--memory-swap=256m")
    with sync.held():
        worker = sync.stage.worker(options=(*sync.options, *limit), CELERY_CONCURRENCY="1", **GIT)
        sync.ask()
        sync.wait_for_the_first_page()
        # The kernel takes the worker first; what fills its memory is another process in the same control group.
        worker.exec("sh", "-c", "for each in /proc/[0-9]*/oom_score_adj; do echo 1000 >$each; done")
        docker("exec", "--detach", worker.name, "python3", "-c", OUT_OF_MEMORY)
        assert worker.exit_code() == KILLED
    assert worker.state["OOMKilled"] is True
    finished_by_another(sync)
    assert sync.batch("attempt") == 1


@pytest.mark.parametrize("command", [(), ("beat",), ("api",), ("flower",)])
def test_sigterm_in_the_first_second_ends_a_role(stage: Stage, command: tuple[str, ...]) -> None:
    container = stage.role(*command, FLOWER_BASIC_AUTH="ops:secret")
    time.sleep(0.2)  # it has not got far
    container.stop(30)
    assert container.exit_code() in (0, 128 + 15)


@pytest.mark.parametrize("command", [(), ("beat",), ("api",), ("flower",)])
def test_sigterm_ends_an_idle_role_with_0(stage: Stage, command: tuple[str, ...]) -> None:
    container = stage.role(*command, FLOWER_BASIC_AUTH="ops:secret", API_TOKEN="t" * 32, REMAP_SIGTERM="SIGQUIT")
    container.wait_healthy()
    container.stop(30)
    assert container.exit_code() == 0
    assert "REMAP_SIGTERM is SIGQUIT: removed" in container.logs()


def test_prefork_worker_is_stopped_and_leaves_nothing_behind(stage: Stage) -> None:
    worker = stage.worker(CELERY_POOL="prefork", CELERY_CONCURRENCY="2", options=HARDENED)
    worker.stop(60)
    assert worker.exit_code() == 0
    wait_for(lambda: stage.unacked() == 0, "nothing is unacknowledged", 5)
