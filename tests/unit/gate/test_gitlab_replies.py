import pytest

from tests.unit.gate.sent import DATE, NOW_SECONDS, judged
from worker_app.gate.signals import Kind, Quota, RateSignal

MERGE_REQUESTS = "merge_requests.list"
RETRY_LATER = "Retry later\n"
OWN_LIMIT = {"message": {"error": "This endpoint has been requested too many times. Try again later."}}


def quota_headers(remaining: int, *, reset_in: int = 42) -> dict[str, str]:
    return {
        "RateLimit-Limit": "2000",
        "RateLimit-Observed": str(2000 - remaining),
        "RateLimit-Remaining": str(remaining),
        "RateLimit-Name": "throttle_authenticated_api",
        "RateLimit-Reset": str(NOW_SECONDS + reset_in),
    }


def refused_headers(retry_after: str = "42") -> dict[str, str]:
    return {**quota_headers(0), "RateLimit-ResetTime": "Wed, 21 Oct 2026 07:27:12 GMT", "Retry-After": retry_after}


def api(remaining: int, reset_in: float | None = 42.0) -> tuple[Quota, ...]:
    return (Quota("api", 2000, remaining, reset_in),)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(200, Kind.OK), (304, Kind.OK), (400, Kind.OTHER), (401, Kind.OTHER), (404, Kind.OTHER), (500, Kind.OTHER)],
)
def test_gitlab_reply_that_is_no_refusal_tells_what_is_left(status: int, kind: Kind) -> None:
    signal = judged("gitlab", MERGE_REQUESTS, status, quota_headers(1987))
    assert signal == RateSignal(kind, "api", quotas=api(1987))


def test_gitlab_reply_with_nothing_left_is_a_success() -> None:
    signal = judged("gitlab", MERGE_REQUESTS, 200, quota_headers(0))
    assert (signal.kind, signal.quotas) == (Kind.OK, api(0))


def test_gitlab_refusal_with_quota_headers_closes_the_api() -> None:
    signal = judged("gitlab", MERGE_REQUESTS, 429, refused_headers(), RETRY_LATER)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.PRIMARY, "api", 42.0)
    assert signal.detail == "throttle_authenticated_api"


@pytest.mark.parametrize("headers", [{}, refused_headers()])
def test_gitlab_endpoint_with_a_limit_of_its_own_is_closed_alone(headers: dict[str, str]) -> None:
    signal = judged("gitlab", "projects.get", 429, headers, OWN_LIMIT)
    assert (signal.kind, signal.bucket, signal.quotas) == (Kind.BURST, "ep.projects.get", ())


@pytest.mark.parametrize("body", [RETRY_LATER, OWN_LIMIT, {}, "", "<html>429 Too Many Requests</html>"])
def test_s08_refusal_without_headers_closes_the_endpoint_and_states_no_wait(body: object) -> None:
    signal = judged("gitlab", MERGE_REQUESTS, 429, body=body)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.BURST, f"ep.{MERGE_REQUESTS}", None)


def test_s08_refusal_without_headers_keeps_the_words_of_the_body() -> None:
    assert judged("gitlab", MERGE_REQUESTS, 429, body=RETRY_LATER).detail == "Retry later"


def test_gitlab_stated_wait_is_obeyed_without_quota_headers() -> None:
    signal = judged("gitlab", MERGE_REQUESTS, 429, {"Retry-After": "7"})
    assert (signal.bucket, signal.after) == (f"ep.{MERGE_REQUESTS}", 7.0)


@pytest.mark.parametrize("reset_in", [-86_400, -60, 0, 72_000, 10**9])
def test_s09_refusal_without_a_stated_wait_does_not_believe_the_reset(reset_in: int) -> None:
    signal = judged("gitlab", MERGE_REQUESTS, 429, quota_headers(0, reset_in=reset_in), RETRY_LATER)
    assert (signal.kind, signal.bucket, signal.after, signal.quotas) == (Kind.PRIMARY, "api", None, ())


@pytest.mark.parametrize("reset_in", [-60, 3601, 72_000, 10**9])
def test_s09_wrong_reset_of_a_success_is_left_out(reset_in: int) -> None:
    assert judged("gitlab", MERGE_REQUESTS, 200, quota_headers(0, reset_in=reset_in)).quotas == api(0, None)


@pytest.mark.parametrize("reset_in", [3600, 60, 0])
def test_gitlab_reset_within_an_hour_is_taken(reset_in: int) -> None:
    assert judged("gitlab", MERGE_REQUESTS, 200, quota_headers(5, reset_in=reset_in)).quotas == api(5, float(reset_in))


def test_s10_retry_after_of_0_is_a_second() -> None:
    assert judged("gitlab", MERGE_REQUESTS, 429, refused_headers("0")).after == 1.0


def test_s11_retry_after_in_a_date_is_a_wait() -> None:
    assert judged("gitlab", MERGE_REQUESTS, 429, refused_headers("Wed, 21 Oct 2026 07:28:00 GMT")).after == 90.0


def test_s34_server_without_limits_is_not_counted() -> None:
    assert judged("gitlab", MERGE_REQUESTS, 200).quotas == (Quota("api", limit=0),)


@pytest.mark.parametrize("endpoint", ["projects.get", "projects.list", "groups.projects", "users.get"])
def test_gitlab_silent_endpoint_says_nothing_of_the_api(endpoint: str) -> None:
    assert judged("gitlab", endpoint, 200).quotas == ()
    assert judged("gitlab", endpoint, 200, quota_headers(1000)).quotas == api(1000)


def test_gitlab_plain_403_closes_nothing() -> None:
    assert judged("gitlab", MERGE_REQUESTS, 403, body={"message": "403 Forbidden"}).kind is Kind.OTHER


def test_gitlab_token_request_says_nothing_of_the_api() -> None:
    assert judged("gitlab", "oauth.token", 200, quota_headers(1000)).quotas == ()
    assert judged("gitlab", "oauth.token", 429, refused_headers()).bucket == "auth"


def test_gitlab_reply_of_a_cache_says_nothing_of_quota() -> None:
    assert judged("gitlab", MERGE_REQUESTS, 200, {**quota_headers(0), "Age": "3", "Date": DATE}).quotas == ()
