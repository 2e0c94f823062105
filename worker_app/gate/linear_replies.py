"""Linear replies: which of them refuse, and what their headers say is left of two buckets at once. Pure, total.

https://linear.app/developers/rate-limiting
"""

import re
from dataclasses import replace

from worker_app.gate.key import WHOLE_KEY
from worker_app.gate.policy import Endpoint
from worker_app.gate.replies import Reading
from worker_app.gate.signals import UNSTATED, Delay, Kind, Quota, RateSignal, Reply, ResetFormat

COUNTED = ("requests", "complexity")  # buckets whose quota the headers tell
REFUSING = frozenset({200, 400, 429})  # GraphQL errors arrive with any of these
COST = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)


def judge(reply: Reply, endpoint: Endpoint) -> RateSignal:
    """What a reply of Linear says about limits."""
    reading = Reading(reply, endpoint)
    quotas = _quotas(reading)
    if reading.is_away:
        return reading.away()
    if reading.status == 429 or (reading.status in REFUSING and _is_limited(reading)):
        return _judge_refusal(reading, quotas)
    return replace(reading.passed(quotas, counted=COUNTED), cost=_cost(reading))


def _judge_refusal(reading: Reading, quotas: tuple[Quota, ...]) -> RateSignal:
    """Closes the bucket that is used up, else the endpoint that is named, else the key; a bucket until it is whole again."""
    detail = " ".join(reading.error_messages()) or reading.message()
    used_up = [quota for quota in quotas if quota.remaining == 0]
    if used_up:
        slowest = max(used_up, key=lambda quota: (quota.reset_in or 0.0, quota.reset_at_ms or 0))
        kind, bucket, reset = Kind.PRIMARY, slowest.bucket, Delay(slowest.reset_in, slowest.reset_at_ms)
    elif name := reading.header("x-ratelimit-endpoint-name"):
        kind, bucket = Kind.BURST, reading.endpoint.own_bucket
        reset, detail = reading.reset("x-ratelimit-endpoint-requests-reset", ResetFormat.MILLISECONDS), name
    else:
        kind, bucket, reset = Kind.SECONDARY, WHOLE_KEY, UNSTATED
    delay = reading.retry_after if reading.retry_after.is_stated else reset
    return reading.refused(kind, bucket, delay=delay, quotas=quotas, detail=detail)


def _quotas(reading: Reading) -> tuple[Quota, ...]:
    passed = [bucket for bucket in COUNTED if bucket in reading.endpoint.buckets]
    found = (reading.quota(bucket, f"x-ratelimit-{bucket}-", ResetFormat.MILLISECONDS) for bucket in passed)
    return tuple(quota for quota in found if quota)


def _is_limited(reading: Reading) -> bool:
    extensions = (error.get("extensions") for error in reading.errors())
    return any(isinstance(found, dict) and found.get("code") == "RATELIMITED" for found in extensions)


def _cost(reading: Reading) -> float | None:
    value = reading.header("x-complexity")
    return float(value) if COST.fullmatch(value) else None
