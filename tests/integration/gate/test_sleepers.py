"""How many callers of one process may sleep in the gate at once: a quarter of its slots, not counting who waits a moment."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.gate.conftest import KEY, UNPACED
from worker_app import errors
from worker_app.gate.gate import Gate
from worker_app.gate.signals import Kind, Quota, RateSignal

pytestmark = pytest.mark.integration
OK = RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 4900, 3000.0),))
SLOTS = 20

GateOf = Callable[..., Gate]


def ask(gate: Gate) -> str:
    """What became of a request: sent, or the reason why it was deferred."""
    try:
        with gate.slot(KEY, "repos.get") as permit:
            permit.observe(OK)
    except errors.RateLimited as limited:
        return limited.reason
    return "sent"


def ask_all(gate: Gate) -> list[str]:
    with ThreadPoolExecutor(SLOTS) as threads:
        return [done.result(25) for done in [threads.submit(ask, gate) for _ in range(SLOTS)]]


def test_callers_that_wait_a_moment_for_each_other_are_all_served(gate_of: GateOf) -> None:
    assert ask_all(gate_of(slots=SLOTS, policies=UNPACED)) == ["sent"] * SLOTS


def test_of_callers_that_wait_for_a_window_a_quarter_sleeps_and_the_others_are_deferred(gate_of: GateOf) -> None:
    gate = gate_of(slots=SLOTS, policies=UNPACED)
    gate.permit(KEY, "repos.get").observe(OK)
    gate.backoff(KEY, 3.0, reason="burst")
    told = ask_all(gate)
    assert told.count("sent") == SLOTS // 4
    assert len(told) - told.count("sent") == SLOTS - SLOTS // 4
