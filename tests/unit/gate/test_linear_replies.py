import pytest

from tests.unit.gate.sent import NOW_SECONDS, judged
from worker_app.gate.signals import Kind, Quota, RateSignal

NOW_MS = NOW_SECONDS * 1000
WORDS = "Rate limit exceeded. Only 2500 requests are allowed per 1 hour"
RATELIMITED = {"errors": [{"message": WORDS, "extensions": {"code": "RATELIMITED", "type": "ratelimited"}}]}


def headers_of(name: str, remaining: int, *, reset_in: float = 600.0, limit: int = 2500) -> dict[str, str]:
    return {
        f"X-RateLimit-{name}-Limit": str(limit),
        f"X-RateLimit-{name}-Remaining": str(remaining),
        f"X-RateLimit-{name}-Reset": str(int(NOW_MS + reset_in * 1000)),
    }


def both(requests: int, complexity: int) -> dict[str, str]:
    return {
        **headers_of("Requests", requests),
        **headers_of("Complexity", complexity, reset_in=900.5, limit=3_000_000),
        "X-Complexity": "57",
    }


def quotas(requests: int, complexity: int) -> tuple[Quota, ...]:
    return (Quota("requests", 2500, requests, 600.0), Quota("complexity", 3_000_000, complexity, 900.5))


@pytest.mark.parametrize(("requests", "complexity"), [(2480, 2_999_000), (0, 2_999_000), (0, 0)])
def test_linear_answer_tells_two_quotas_and_its_cost(requests: int, complexity: int) -> None:
    signal = judged("linear", "issues", 200, both(requests, complexity), {"data": {"issues": {"nodes": []}}})
    assert signal == RateSignal(Kind.OK, "requests", quotas=quotas(requests, complexity), cost=57.0)


@pytest.mark.parametrize(
    ("requests", "complexity", "bucket", "after"),
    [(0, 2_000, "requests", 600.0), (7, 0, "complexity", 900.5), (0, 0, "complexity", 900.5)],
)
@pytest.mark.parametrize("status", [200, 400, 429])
def test_s37_ratelimited_closes_the_bucket_that_is_used_up_until_its_reset(
    status: int, requests: int, complexity: int, bucket: str, after: float
) -> None:
    signal = judged("linear", "issues", status, both(requests, complexity), RATELIMITED)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.PRIMARY, bucket, after)
    assert (signal.quotas, signal.detail) == (quotas(requests, complexity), WORDS)


def test_s37_reset_in_milliseconds_counts_from_the_reply() -> None:
    headers = {**headers_of("Requests", 0), "X-RateLimit-Requests-Reset": "1733302464386"}
    signal = judged("linear", "teams", 400, headers, RATELIMITED, date="Wed, 04 Dec 2024 07:54:24 GMT")
    assert (signal.kind, signal.bucket) == (Kind.PRIMARY, "requests")
    assert signal.after == 3600.386


def test_s37_reset_in_milliseconds_is_left_to_the_clock_of_redis_without_a_date() -> None:
    headers = {**headers_of("Requests", 0), "X-RateLimit-Requests-Reset": "1733302464386"}
    signal = judged("linear", "teams", 400, headers, RATELIMITED, date=None)
    assert (signal.after, signal.after_at_ms) == (None, 1_733_302_464_386)


def test_s37_limit_of_an_endpoint_closes_that_endpoint() -> None:
    headers = {
        **both(2480, 2_999_000),
        **headers_of("Endpoint-Requests", 0, reset_in=30.0, limit=20),
        "X-RateLimit-Endpoint-Name": "issueHistory",
    }
    signal = judged("linear", "issue.history", 400, headers, RATELIMITED)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.BURST, "ep.issue.history", 30.0)
    assert signal.detail == "issueHistory"


@pytest.mark.parametrize("headers", [{}, both(2480, 2_999_000)])
def test_s37_limit_that_names_nothing_closes_the_key(headers: dict[str, str]) -> None:
    signal = judged("linear", "issues", 400, headers, RATELIMITED)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.SECONDARY, "*", None)


def test_s37_stated_wait_goes_before_the_reset() -> None:
    assert judged("linear", "issues", 400, {**both(0, 5), "Retry-After": "17"}, RATELIMITED).after == 17.0


def test_s08_429_without_headers_closes_the_key() -> None:
    signal = judged("linear", "issues", 429, body="Too Many Requests")
    assert (signal.kind, signal.bucket, signal.after) == (Kind.SECONDARY, "*", None)
    assert signal.detail == "Too Many Requests"


@pytest.mark.parametrize(
    "body",
    [
        {"errors": [{"message": "Team not found", "extensions": {"code": "INPUT_ERROR"}}]},
        {"errors": [{"message": "rate limit", "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}}]},
        {"errors": [{"extensions": "RATELIMITED"}, {"extensions": None}, {"code": "RATELIMITED"}]},
        {"errors": ["RATELIMITED"]},
        {"errors": {"extensions": {"code": "RATELIMITED"}}},
        "RATELIMITED",
        None,
    ],
)
def test_linear_any_other_400_closes_nothing(body: object) -> None:
    signal = judged("linear", "issues", 400, both(0, 2_999_000), body)
    assert (signal.kind, signal.quotas) == (Kind.OTHER, quotas(0, 2_999_000))


@pytest.mark.parametrize("status", [401, 403, 500, 502])
def test_linear_other_failures_close_nothing(status: int) -> None:
    assert judged("linear", "issues", status, body=RATELIMITED).kind is Kind.OTHER


def test_s34_bucket_that_an_answer_does_not_tell_is_not_counted() -> None:
    signal = judged("linear", "issues", 200, headers_of("Requests", 5), {"data": {}})
    assert signal.quotas == (Quota("requests", 2500, 5, 600.0), Quota("complexity", limit=0))


def test_linear_reset_in_seconds_is_not_guessed() -> None:
    headers = {**both(0, 5), "X-RateLimit-Requests-Reset": str(NOW_SECONDS + 600)}
    signal = judged("linear", "issues", 400, headers, RATELIMITED)
    assert (signal.bucket, signal.after, signal.quarantined) == ("requests", None, (str(NOW_SECONDS + 600),))


@pytest.mark.parametrize(("value", "cost"), [("57.5", 57.5), ("0", 0.0), ("-1", None), ("NaN", None), ("", None)])
def test_linear_cost_is_a_plain_number(value: str, cost: float | None) -> None:
    assert judged("linear", "viewer", 200, {"X-Complexity": value}, {"data": {}}).cost == cost
