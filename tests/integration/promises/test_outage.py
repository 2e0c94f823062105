"""Redis goes away and comes back: the worker lives, nothing is lost, nothing is done twice, the hub never stands still."""

import pytest

from tests.integration.promises import outage
from tests.integration.promises.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@pytest.mark.parametrize("load", ["idle", "half", "full"])
def test_outage_of_two_seconds_costs_time_and_nothing_else(stage: Stage, load: outage.Load) -> None:
    outage.go_through(stage, load, 2)


def test_redis_that_does_not_answer_for_seven_seconds_costs_time_and_nothing_else(stage: Stage) -> None:
    outage.go_through(stage, "full", 7, is_frozen=True)


def test_worker_that_is_born_while_redis_is_away_waits_for_it(stage: Stage) -> None:
    stage.send("nap", 0, "one")
    stage.valkey.stop()
    worker = stage.worker(slots=2, is_waited_for=False)
    worker.wait_for_log("Trying again")
    stage.valkey.start()
    stage.wait_done(1)


def test_connections_that_are_cut_again_and_again_cost_nothing(stage: Stage) -> None:
    worker = stage.worker(slots=20)
    stage.send("nap", 0.1, "#", count=600)
    while len(stage.effects()) < 600:
        for client in stage.redis.client_list():
            if client["cmd"] not in ("client|list", "lpush", "publish"):
                stage.redis.client_kill_filter(_id=client["id"])
        stage.wait_begun(min(600, len(stage.begun()) + 40))
    stage.wait_done(600)
    assert set(stage.effects().values()) == {1}
    assert worker.process.poll() is None
    assert stage.ask("stats")["pool"]["running"] == 0


def test_three_restarts_in_a_row_cost_nothing(stage: Stage) -> None:
    worker = stage.worker(slots=20)
    stage.send("nap", 0.2, "#", count=200)
    stage.wait_begun(20)
    for _ in range(3):
        stage.valkey.stop()
        stage.valkey.start()
    stage.wait_done(200)
    assert set(stage.effects().values()) == {1}
    assert worker.process.poll() is None
