"""Jira replies: which of them refuse, for which reason, and what their headers say is left. Pure, total.

https://developer.atlassian.com/cloud/jira/platform/rate-limiting/
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from worker_app.gate.policy import Endpoint
from worker_app.gate.replies import Reading
from worker_app.gate.signals import DAY_SECONDS, Kind, Quota, RateSignal, Reply, ResetFormat

COUNTED = frozenset({"points"})  # the bucket whose quota the structured headers tell
KEY_REASONS = frozenset({"jira-quota-global-based", "jira-quota-tenant-based"})
ENDPOINT_REASONS = frozenset({"jira-burst-based", "jira-per-issue-on-write"})
THREADS_REASON = "jira-max-concurrent-threads"  # how it begins
UNTOLD_SHARE = 0.2  # what is left at least while the provider does not say how much
ITEM = re.compile(r'\s*"?(?P<name>[\w.-]{1,64})"?\s*(?P<parameters>;.*)?', re.ASCII | re.DOTALL)
PARAMETER = re.compile(r";\s*(?P<name>[qwrt])\s*=\s*(?P<value>\d{1,15})\s*(?=;|$)", re.ASCII)


def judge(reply: Reply, endpoint: Endpoint) -> RateSignal:
    """What a reply of Jira Cloud or Data Center says about limits."""
    reading = Reading(reply, endpoint)
    quotas = _quotas(reading)
    if reading.is_away:
        return reading.away()
    if reading.status == 429:
        return _judge_refusal(reading, quotas)
    signal = reading.passed(quotas, counted=COUNTED)
    return replace(signal, kind=Kind.NEAR) if signal.kind is Kind.OK and _is_near(reading) else signal


def _judge_refusal(reading: Reading, quotas: tuple[Quota, ...]) -> RateSignal:
    """A reason that is not known closes the key. A stated wait goes before the reset, which only some refusals carry."""
    reason = reading.header("ratelimit-reason").lower()
    delay = reading.retry_after
    if not delay.is_stated:
        delay = reading.reset("x-ratelimit-reset", ResetFormat.ISO)
    if reason in ENDPOINT_REASONS:
        return reading.refused(Kind.BURST, reading.endpoint.own_bucket, delay=delay, quotas=quotas, detail=reason)
    kind = Kind.SECONDARY if reason.startswith(THREADS_REASON) else Kind.PRIMARY
    detail = reason or reading.header("x-failure-category") or reading.message()
    return reading.refused(kind, delay=delay, quotas=quotas, detail=detail, is_reason_known=reason in KEY_REASONS)


def _is_near(reading: Reading) -> bool:
    is_counted = "points" in reading.endpoint.buckets and not reading.is_cached
    return is_counted and reading.header("x-ratelimit-nearlimit").lower() == "true"


def _quotas(reading: Reading) -> tuple[Quota, ...]:
    """The scarcest of the quotas that the structured headers list; the plain ones count requests of one second."""
    if "points" not in reading.endpoint.buckets or reading.is_cached:
        return ()
    limits, states = _structured(reading, "ratelimit-policy"), _structured(reading, "ratelimit")
    quotas = [_quota(limits.get(name, {}).get("q"), states.get(name, {})) for name in {**limits, **states}]
    return tuple(sorted(filter(None, quotas), key=lambda quota: quota.remaining or 0)[:1])


def _quota(limit: int | None, state: Mapping[str, int]) -> Quota | None:
    """`r` is absent as long as much is left: then the least that this can mean is taken for what is left."""
    if limit == 0:
        return Quota("points", limit=0)
    remaining = state.get("r", None if limit is None else int(limit * UNTOLD_SHARE))
    if remaining is None:
        return None
    reset = state.get("t")
    return Quota("points", limit, remaining, float(reset) if reset is not None and reset <= DAY_SECONDS else None)


def _structured(reading: Reading, name: str) -> dict[str, dict[str, int]]:
    """The items of a structured header, which may still be called a beta: parameters by the name of the policy."""
    value = reading.header(name) or reading.header(f"beta-{name}")
    items = filter(None, map(ITEM.fullmatch, value.split(",")))
    return {item["name"]: _parameters(item["parameters"] or "") for item in items}


def _parameters(text: str) -> dict[str, int]:
    return {found["name"]: int(found["value"]) for found in PARAMETER.finditer(text)}
