import json
from contextlib import AbstractContextManager
from uuid import UUID

import pytest

from worker_app import queue_depth
from worker_app.gate.key import GateKey, GateState
from worker_app.store.postgres import Transaction


@pytest.mark.parametrize(
    "message", [b"", b"nonsense", b"[]", b'{"headers": null}', b'{"headers": {"enqueued_at": "x"}}', b"{}"]
)
def test_foreign_message_has_no_age_and_breaks_nothing(message: bytes) -> None:
    assert queue_depth._age(message, 100.0) is None


def test_age_is_never_negative() -> None:
    message = json.dumps({"headers": {"enqueued_at": 101.0}}).encode()
    assert queue_depth._age(message, 100.0) == 0.0
    assert queue_depth._age(message, 103.5) == 2.5


@pytest.mark.parametrize("value", ["", "{}", "[]", '{"fleet": "w", "queues": [], "slots": "x", "running": {}}'])
def test_presence_in_other_words_is_no_worker(value: str) -> None:
    assert queue_depth._worker("dev-hops/presence/a", value) is None


def test_presence_tells_what_held_the_hub_and_an_older_worker_does_not() -> None:
    presence = {"fleet": "worker", "queues": ["sync"], "slots": 4, "running": {}}
    blocked = presence | {"hub_lag_seconds": 6.2, "hub_blocked_in": "worker_app/tasks.py:33 in spin"}
    old = queue_depth._worker("dev-hops/presence/a", json.dumps(presence))
    new = queue_depth._worker("dev-hops/presence/b", json.dumps(blocked))
    assert old is not None
    assert new is not None
    assert (old.hub_lag_seconds, old.hub_blocked_in) == (0.0, "")
    assert (new.hub_lag_seconds, new.hub_blocked_in) == (6.2, "worker_app/tasks.py:33 in spin")


def state(org_id: str, retry_in: float) -> GateState:
    return GateState(GateKey("github", org_id, "github.com"), "*", "", "", retry_in, None, None, None, 20, 0)


@pytest.mark.parametrize("known", [[], [state(str(UUID(int=1)), 0.0)], [state("somebody-else", 60.0)]])
def test_postgres_is_asked_only_where_a_gate_of_ours_is_closed(known: list[GateState]) -> None:
    def transaction() -> AbstractContextManager[Transaction]:
        raise AssertionError("nobody had to ask")

    assert queue_depth.held(known, transaction) == {}
