"""Messages that nobody of ours has sent: each gets one verdict, and the worker goes on with the rest."""

import base64
import json
from typing import Any

import pytest

from bench.worker_process import wait_for
from tests.integration.promises.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]


def send_raw(stage: Stage, body: Any, **headers: Any) -> None:
    """A message with any body and any headers, otherwise as Celery sends it."""
    stage.send("noop", queue="other")  # which the worker does not consume
    text: Any = stage.redis.lpop("other")
    message = json.loads(text)
    message["body"] = base64.b64encode(json.dumps(body).encode()).decode()
    message["headers"] |= headers
    stage.redis.lpush("work", json.dumps(message))


def settles(stage: Stage) -> None:
    """The worker is done with all that was sent, and takes work."""
    stage.send("nap", 0, "after")
    wait_for(lambda: stage.effects().get("after") == 1, "the next task runs", 15)
    wait_for(lambda: stage.depth() + stage.unacked() == 0, "nothing is left", 15)
    shown = stage.ask("stats")["pool"]
    assert (shown["running"], shown["waiting"]) == (0, 0)


@pytest.mark.parametrize("limits", [["5", None], ["a", "b"], [[], None]], ids=str)
def test_time_limit_that_is_no_number_holds_no_slot(stage: Stage, limits: list[Any]) -> None:
    worker = stage.worker(slots=2)
    for _ in range(4):
        send_raw(stage, [[], {}, {}], timelimit=limits)
    settles(stage)
    assert worker.log.count("received") < 12


@pytest.mark.parametrize(
    "body",
    [
        [1, 2, 3],
        [[], {}, {"callbacks": [5], "errbacks": "x", "chain": ["x"], "chord": 7}],
        {"no": "list"},
        "text",
        None,
    ],
    ids=lambda body: json.dumps(body)[:20],
)
def test_body_that_nobody_can_run_fails_once_and_does_not_come_again(stage: Stage, body: Any) -> None:
    worker = stage.worker(slots=2)
    send_raw(stage, body)
    settles(stage)
    assert worker.log.count("task.given_back") == 0
    assert worker.log.count("received") <= 2


def test_unknown_task_and_wrong_arguments_are_settled(stage: Stage) -> None:
    stage.worker(slots=2)
    stage.send("never.heard.of")
    stage.send("nap", "not a number")
    stage.send("noop", 1, 2, 3)
    stage.send("noop", expires=-1)
    settles(stage)


def test_bounds_of_autoscale_that_make_no_sense_are_refused(stage: Stage) -> None:
    stage.worker(autoscale=(6, 2))
    for bounds in ((0, 0), (-5, -5), (2, 5)):
        stage.control().autoscale(*bounds)
    stage.control().autoscale(5, 3)
    wait_for(lambda: stage.ask("stats")["autoscaler"]["max"] == 5, "the sensible order is heard")
    assert stage.ask("stats")["autoscaler"]["min"] == 3
    settles(stage)
