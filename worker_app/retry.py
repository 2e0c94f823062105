"""Retry: how often and how long after a fault. Pure; every retry of the project takes its numbers from here."""

from typing import Any

from worker_app import errors

MAX_ATTEMPTS = 5  # the fifth fault of a batch, or the fifth lost worker of a run, is the last
FIRST_BACKOFF_SECONDS = 15.0
LONGEST_BACKOFF_SECONDS = 900.0

TASK_RETRY: dict[str, Any] = {  # a store that is away: the message waits in the worker, never longer than a minute
    "autoretry_for": (errors.StoreAway,),
    "retry_backoff": 2,
    "retry_backoff_max": 60,
    "retry_jitter": True,
    "max_retries": None,
}


def backoff_seconds(attempt: int, share: float) -> float:
    """How long to wait after fault `attempt` (0 is the first): doubled each time, bounded, between half and whole by `share`."""
    whole = min(LONGEST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2.0 ** min(attempt, 16))
    return whole * (0.5 + share / 2)
