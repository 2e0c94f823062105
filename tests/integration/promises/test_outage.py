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
