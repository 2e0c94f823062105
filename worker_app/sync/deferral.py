"""Deferral: how long a batch stands back that a limit keeps from going on, and when that has no end. Pure.

A wait spends no attempt and holds no slot: the batch lies in Postgres until its moment has come.
"""

from worker_app import errors
from worker_app.gate.key import Reason
from worker_app.gate.policies import POLICIES

SPREAD = 0.1  # of a wait is added at random, so that what waited for one window does not come back as one
MOST_SPREAD_SECONDS = 30.0
FIRST_SECONDS, MOST_SECONDS = 5.0, 60.0  # where nobody knows when: doubled with each wait since the last page
UNTIMED = frozenset({Reason.CONCURRENCY, Reason.PACE, Reason.PROBE})  # what ends when others end, not by a clock
HOPELESS_FAILS = 3  # windows in a row in which the bucket was refused
HOPELESS_SECONDS = 7200.0  # without a page, at least


def wait_seconds(error: errors.Deferral, deferrals: int, draw: float) -> float:
    """How long to stand back. `deferrals`: waits since the last page; `draw`: 0 to 1."""
    if isinstance(error, errors.RateLimited) and error.reason in UNTIMED:
        return min(MOST_SECONDS, FIRST_SECONDS * 2.0 ** min(deferrals, 8) + FIRST_SECONDS * draw)
    return error.retry_in + draw * min(SPREAD * error.retry_in, MOST_SPREAD_SECONDS)


def is_hopeless(error: errors.Deferral, stalled_seconds: float) -> bool:
    """Whether the batch fails: no page for twice the provider's longest window, refused in several windows in a row."""
    if not isinstance(error, errors.RateLimited) or error.fails < HOPELESS_FAILS:
        return False
    longest = max(bucket.period for bucket in POLICIES[error.provider].buckets.values())
    return stalled_seconds >= max(HOPELESS_SECONDS, 2 * longest)


def reason_of(error: errors.Deferral) -> dict[str, str]:
    """What is stored of the reason, for people."""
    if not isinstance(error, errors.RateLimited):
        return {"reason": Reason.OUTAGE.value, "detail": str(error)}
    said = {"bucket": error.bucket, "reason": error.reason, "detail": error.detail}
    return {"gate": f"{error.provider} on {error.host}", **{name: value for name, value in said.items() if value}}
