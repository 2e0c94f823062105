"""GitLab replies: which of them refuse, and what their headers say is left. Pure, total.

https://docs.gitlab.com/administration/settings/user_and_ip_rate_limits/
https://docs.gitlab.com/user/gitlab_com/#rate-limits-on-gitlabcom
"""

from dataclasses import replace

from worker_app.gate.policy import Endpoint
from worker_app.gate.replies import Reading
from worker_app.gate.signals import Kind, Quota, RateSignal, Reply, ResetFormat

COUNTED = frozenset({"api"})  # the bucket whose quota the headers tell
PREFIX = "ratelimit-"
LONGEST_WINDOW = 3600.0  # seconds; resets beyond it were seen and are wrong


def judge(reply: Reply, endpoint: Endpoint) -> RateSignal:
    """What a reply of gitlab.com or a GitLab of one's own says about limits."""
    reading = Reading(reply, endpoint)
    if reading.is_away:
        return reading.away()
    if reading.status == 429:
        return _judge_refusal(reading)
    quota = _quota(reading)
    return reading.passed([quota] if quota else (), counted=COUNTED)


def _judge_refusal(reading: Reading) -> RateSignal:
    """Closes the endpoint where the limit may be its own. The reset is not asked: it is wrong where no wait is stated."""
    names_quota = reading.count("ratelimit-remaining") is not None
    is_wide = "api" in reading.endpoint.buckets and names_quota and not reading.endpoint.is_limited
    detail = reading.header("ratelimit-name") or reading.message()
    bucket = "api" if is_wide else reading.endpoint.own_bucket
    return reading.refused(Kind.PRIMARY if is_wide else Kind.BURST, bucket, delay=reading.retry_after, detail=detail)


def _quota(reading: Reading) -> Quota | None:
    quota = reading.quota("api", PREFIX, ResetFormat.SECONDS) if "api" in reading.endpoint.buckets else None
    if quota and (quota.reset_in or 0.0) > LONGEST_WINDOW:
        return replace(quota, reset_in=None)
    return quota
