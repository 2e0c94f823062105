"""Renewal: the process begins anew at its task or memory limit, under the same pid, and nothing is lost or done twice."""

import pytest

from bench.worker_process import marks, wait_for
from tests.integration.promises.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


def test_task_limit_renews_the_process_and_keeps_every_task(stage: Stage) -> None:
    worker = stage.worker(slots=2, max_tasks=10)
    stage.send("nap", 0.05, "#", count=120)
    stage.wait_done(120)
    assert set(stage.effects().values()) == {1}
    assert len(stage.effects()) == 120
    wait_for(lambda: worker.log.count("worker.renews") >= 2, "it begins anew more than once")
    assert {pid for *_, pid, _ in marks(stage.folder / "marks")} == {worker.pid}
    assert "reason=memory" not in worker.log


def test_worker_that_has_just_begun_is_not_renewed_for_its_tasks(stage: Stage) -> None:
    worker = stage.worker(slots=2, max_tasks=2, least_age=600)
    stage.send("nap", 0, "#", count=50)
    stage.wait_done(50)
    wait_for(lambda: stage.ask("stats")["total"] == {"nap": 50}, "one process did all")
    assert "drain.began" not in worker.log


def test_memory_limit_renews_the_process_before_the_container_is_full(stage: Stage) -> None:
    leak_away(stage, count=3000, limit_mb=160)


def leak_away(stage: Stage, *, count: int, limit_mb: int) -> None:
    """Tasks of which ten leak a megabyte; the limit stands at 85 % of what the container would have."""
    worker = stage.worker(slots=20, max_memory_mb=limit_mb, max_tasks=10**6)
    stage.send("leak", 100, "#", count=count)
    peak = 0.0

    def is_done() -> bool:
        nonlocal peak
        peak = max(peak, worker.memory_mb())
        return len(stage.effects()) == count and stage.depth() + stage.unacked() == 0

    wait_for(is_done, "all have leaked", 100)
    assert set(stage.effects().values()) == {1}
    assert worker.log.count("recycle.memory") >= count // 10 // limit_mb
    assert peak < limit_mb / 0.85 + 20  # two tests that share a processor look less often
