"""Replies as the four providers send them, at one moment of their own clock, and what the classifiers make of them."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime

from worker_app.gate.policies import POLICIES
from worker_app.gate.signals import RateSignal, Reply

NOW = datetime(2026, 10, 21, 7, 26, 30, tzinfo=UTC)
NOW_SECONDS = int(NOW.timestamp())
DATE = "Wed, 21 Oct 2026 07:26:30 GMT"


def judged(
    provider: str,
    endpoint: str,
    status: int,
    headers: Mapping[str, str] | None = None,
    body: object = None,
    *,
    date: str | None = DATE,
) -> RateSignal:
    """The classifier itself, without the guard around it. A body that is no text stands for the JSON that was parsed."""
    dated = {"Date": date} if date else {}
    text = body if isinstance(body, str) else "" if body is None else json.dumps(body)
    document = None if isinstance(body, str) else body
    policy = POLICIES[provider]
    reply = Reply(status, {**dated, **(headers or {})}, text.encode(), document, endpoint)
    return policy.judge(reply, policy.endpoint(endpoint))
