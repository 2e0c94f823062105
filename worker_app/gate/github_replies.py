"""GitHub replies: which of them refuse, and what their headers say is left. Pure, total.

https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
"""

from worker_app.gate.policy import Endpoint
from worker_app.gate.replies import Reading
from worker_app.gate.signals import UNSTATED, Delay, Kind, Quota, RateSignal, Reply, ResetFormat

COUNTED = frozenset({"core", "graphql"})  # buckets whose quota the headers tell, by the provider's own names
PREFIX = "x-ratelimit-"
LIMIT_WORDS = ("rate limit", "abuse detection")  # in lower case
LIMIT_TYPES = ("RATE_LIMITED", "RATE_LIMIT")  # of a GraphQL error; both are in use


def judge(reply: Reply, endpoint: Endpoint) -> RateSignal:
    """What a reply of GitHub or GitHub Enterprise Server says about limits."""
    reading = Reading(reply, endpoint)
    quota = reading.quota(_named_bucket(reading), PREFIX, ResetFormat.SECONDS)
    if reading.is_away:
        return reading.away()
    if endpoint.name == "graphql" and reading.status == 200:
        return _judge_graphql(reading, quota)
    if reading.status in (403, 429):
        return _judge_refusal(reading, quota)
    return _passed(reading, quota)


def _judge_refusal(reading: Reading, quota: Quota | None) -> RateSignal:
    """403 and 429 mean the same. A stated wait goes first: the hourly reset is not the end of a secondary limit."""
    message = reading.message()
    if reading.retry_after.is_stated:
        return _secondary(reading, quota, message)
    if _is_used_up(quota):
        return _primary(reading, quota, message)
    if reading.status == 429 or reading.header("retry-after") or _speaks_of_limit(message):
        return _secondary(reading, quota, message)
    return _passed(reading, quota)


def _judge_graphql(reading: Reading, quota: Quota | None) -> RateSignal:
    """GraphQL refuses with 200. An answer with data is a success, even with nothing left."""
    words = " ".join([reading.message(), *reading.error_messages()])
    if any(error.get("type") in LIMIT_TYPES for error in reading.errors()):
        return _primary(reading, quota, words)
    if reading.fields().get("data") is None and _speaks_of_limit(words):
        return _secondary(reading, quota, words)
    return _passed(reading, quota)


def _primary(reading: Reading, quota: Quota | None, detail: str) -> RateSignal:
    """Closes what is used up until it is whole again; with something left, the reset says nothing about the refusal."""
    reset = Delay(quota.reset_in, quota.reset_at_ms) if quota and _is_used_up(quota) else UNSTATED
    delay = reading.retry_after if reading.retry_after.is_stated else reset
    named = _named_bucket(reading)
    bucket = named if _is_counted(reading, named) else reading.endpoint.own_bucket
    return reading.refused(Kind.PRIMARY, bucket, delay=delay, quotas=_own(reading, quota), detail=detail)


def _secondary(reading: Reading, quota: Quota | None, detail: str) -> RateSignal:
    return reading.refused(Kind.SECONDARY, delay=reading.retry_after, quotas=_own(reading, quota), detail=detail)


def _passed(reading: Reading, quota: Quota | None) -> RateSignal:
    named = _named_bucket(reading)
    return reading.passed(_own(reading, quota), counted=[named] if _is_counted(reading, named) else ())


def _named_bucket(reading: Reading) -> str:
    return reading.header("x-ratelimit-resource").lower() or reading.endpoint.buckets[0]


def _is_counted(reading: Reading, bucket: str) -> bool:
    return bucket in COUNTED and bucket in reading.endpoint.buckets


def _own(reading: Reading, quota: Quota | None) -> tuple[Quota, ...]:
    """The numbers, unless they belong to a bucket that the endpoint does not pass: those must not close the ones it does."""
    return (quota,) if quota and _is_counted(reading, quota.bucket) else ()


def _is_used_up(quota: Quota | None) -> bool:
    return quota is not None and quota.remaining == 0


def _speaks_of_limit(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in LIMIT_WORDS)
