import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.gate.sent import DATE, judged
from worker_app.gate.policies import POLICIES
from worker_app.gate.policy import Endpoint, ProviderPolicy
from worker_app.gate.signals import REFUSED, Kind, RateSignal, Reply

EVERY_ENDPOINT = [(policy, endpoint) for policy in POLICIES.values() for endpoint in policy.endpoints.values()]
HEADERS = (
    "Age", "Date", "Retry-After", "Beta-Retry-After", "X-Complexity", "X-Failure-Category", "RateLimit-Reason",
    "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "X-RateLimit-Resource", "X-RateLimit-NearLimit",
    "RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "RateLimit-Name",
    "RateLimit", "RateLimit-Policy", "Beta-RateLimit", "Beta-RateLimit-Policy",
    "X-RateLimit-Requests-Limit", "X-RateLimit-Requests-Remaining", "X-RateLimit-Requests-Reset",
    "X-RateLimit-Complexity-Limit", "X-RateLimit-Complexity-Remaining", "X-RateLimit-Complexity-Reset",
    "X-RateLimit-Endpoint-Name", "X-RateLimit-Endpoint-Requests-Reset",
)  # fmt: skip
WORDS = (
    "0", "-1", "5", "60", "1.5", "99999999999", "1792567590", "1792567590000", "9" * 5000, "core", "graphql", "search",
    "*", "true", DATE, "Wed, 32 Oct 2026 07:28:00 GMT", "2026-10-21T07:28:00Z", "0001-01-01T00:00:00+23:59",
    '"x";q=65000;w=3600', '"x";r=0;t=600, "y";r=1;t=99999', "jira-burst-based", "jira-quota-tenant-based",
)  # fmt: skip
VALUES = st.sampled_from(WORDS) | st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: raw.decode("latin-1"))
STATUSES = st.sampled_from([200, 304, 400, 403, 404, 429, 500, 503]) | st.integers(-1, 1000)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["RATE_LIMITED", "RATELIMITED", "rate limit"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["message", "errors", "type", "extensions", "code", "data"]), inner, max_size=4
    ),
    max_leaves=12,
)  # fmt: skip
REPLIES = st.builds(
    Reply,
    status=STATUSES,
    headers=st.dictionaries(st.sampled_from(HEADERS) | st.text(max_size=20), VALUES, max_size=10),
    body=st.binary(max_size=200),
    document=st.none() | JSON,
    endpoint=st.just(""),
)
NESTED = json.loads('{"errors": [{"type": ' + "[" * 400 + "]" * 400 + "}]}")


def assert_within_bounds(signal: RateSignal, policy: ProviderPolicy, endpoint: Endpoint) -> None:
    assert signal.bucket in {"*", *endpoint.buckets}
    assert signal.bucket in {"*", *policy.buckets}
    assert signal.after is None or 1.0 <= signal.after <= 86_400.0
    assert signal.after_at_ms is None or (signal.after_at_ms >= 0 and signal.after is None)
    assert signal.kind in REFUSED or (signal.after, signal.after_at_ms) == (None, None)
    assert signal.kind is not Kind.SECONDARY or signal.bucket == "*"
    assert signal.cost is None or 0.0 <= signal.cost <= 1e9
    assert len(signal.detail) <= 120
    assert not signal.detail or signal.detail.isprintable()
    assert all(0 < len(value) <= 64 for value in signal.quarantined)
    counted = [quota.bucket for quota in signal.quotas]
    assert len(counted) == len(set(counted))
    for quota in signal.quotas:
        assert quota.bucket in endpoint.buckets
        assert policy.buckets[quota.bucket].model != "none"
        assert quota.limit is None or quota.limit >= 0
        assert (quota.remaining is None) == (quota.limit == 0)
        assert quota.remaining is None or quota.remaining >= 0
        assert quota.reset_in is None or 0.0 <= quota.reset_in <= 86_400.0
        assert quota.reset_at_ms is None or (quota.reset_at_ms >= 0 and quota.reset_in is None)


@settings(max_examples=500, deadline=None)  # a busy machine is no failure
@given(where=st.sampled_from(EVERY_ENDPOINT), reply=REPLIES)
@example(where=EVERY_ENDPOINT[0], reply=Reply(200, {}, b"", NESTED, ""))
@example(where=EVERY_ENDPOINT[0], reply=Reply(403, {"X-RateLimit-Remaining": "0"}, b"\xff" * 70_000, None, ""))
def test_every_classifier_is_total_and_bounded_without_its_guard(
    where: tuple[ProviderPolicy, Endpoint], reply: Reply
) -> None:
    policy, endpoint = where
    assert_within_bounds(policy.judge(reply, endpoint), policy, endpoint)


@pytest.mark.parametrize("provider", sorted(POLICIES))
@pytest.mark.parametrize("endpoint", ["repos.get", "merge_requests.list", "search.jql", "issues", "graphql"])
@pytest.mark.parametrize(("value", "after"), [("30", 30.0), ("0", 1.0), ("soon", None)])
def test_503_that_states_a_wait_closes_the_key_of_any_provider(
    provider: str, endpoint: str, value: str, after: float | None
) -> None:
    if endpoint not in POLICIES[provider].endpoints:
        endpoint = next(iter(POLICIES[provider].endpoints))
    signal = judged(provider, endpoint, 503, {"Retry-After": value}, "<html>Service Unavailable</html>")
    assert (signal.kind, signal.bucket, signal.after, signal.quotas) == (Kind.BURST, "*", after, ())


@pytest.mark.parametrize("provider", sorted(POLICIES))
@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_fault_of_a_provider_closes_nothing(provider: str, status: int) -> None:
    signal = judged(provider, next(iter(POLICIES[provider].endpoints)), status, {}, "<html>rate limit</html>")
    assert (signal.kind, signal.quotas) == (Kind.OTHER, ())


@pytest.mark.parametrize("provider", sorted(POLICIES))
def test_classify_is_what_the_classifier_says(provider: str) -> None:
    policy = POLICIES[provider]
    endpoint = next(iter(policy.endpoints.values()))
    reply = Reply(429, {"Date": DATE, "Retry-After": "7"}, b"", None, endpoint.name)
    assert policy.classify(reply) == policy.judge(reply, endpoint)


def test_classify_survives_a_classifier_that_fails() -> None:
    signal = POLICIES["github"].classify(Reply(200, {}, b"", None, "no such endpoint"))
    assert signal == RateSignal(Kind.UNKNOWN, "*", detail="classifier failed: ValueError")
