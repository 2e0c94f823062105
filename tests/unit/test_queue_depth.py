import json

import pytest

from worker_app import queue_depth


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
