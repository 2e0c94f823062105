import pytest

from tests.unit.gate.sent import judged
from worker_app.gate.signals import Kind, Quota, RateSignal

SEARCH = "search.jql"
BURST_HEADERS = {"X-RateLimit-Limit": "100", "X-RateLimit-Remaining": "93"}
POLICY = '"global-app-quota";q=65000;w=3600'
STATE = '"global-app-quota";r=11000;t=600'
TOO_MANY = "<html><head><title>Rate limit exceeded.</title></head></html>"


def refused_headers(reason: str, **more: str) -> dict[str, str]:
    return {"RateLimit-Reason": reason, **{name.replace("_", "-"): value for name, value in more.items()}}


def structured(policy: str, state: str, *, prefix: str = "Beta-") -> dict[str, str]:
    return {f"{prefix}RateLimit-Policy": policy, f"{prefix}RateLimit": state}


@pytest.mark.parametrize("reason", ["jira-quota-global-based", "jira-quota-tenant-based", "JIRA-Quota-Tenant-Based"])
def test_jira_quota_reason_closes_the_key(reason: str) -> None:
    signal = judged("jira", SEARCH, 429, refused_headers(reason, Retry_After="1847"), TOO_MANY)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.PRIMARY, "*", 1847.0)
    assert (signal.detail, signal.is_reason_known) == (reason.lower(), True)


@pytest.mark.parametrize("reason", ["jira-burst-based", "jira-per-issue-on-write"])
def test_jira_burst_reason_closes_the_endpoint(reason: str) -> None:
    signal = judged("jira", SEARCH, 429, {**BURST_HEADERS, **refused_headers(reason, Retry_After="2")})
    assert (signal.kind, signal.bucket, signal.after) == (Kind.BURST, f"ep.{SEARCH}", 2.0)
    assert (signal.detail, signal.quotas, signal.is_reason_known) == (reason, (), True)


@pytest.mark.parametrize(
    ("headers", "detail"),
    [
        ({"RateLimit-Reason": "jira-cost-based"}, "jira-cost-based"),
        ({"RateLimit-Reason": "jira-of-tomorrow"}, "jira-of-tomorrow"),
        ({"X-Failure-Category": "FAILURE_CLIENT_AUTH_MISMATCH"}, "FAILURE_CLIENT_AUTH_MISMATCH"),
        ({}, "Rate limit exceeded."),
    ],
)
def test_s08_unknown_or_absent_reason_closes_the_key_and_is_told(headers: dict[str, str], detail: str) -> None:
    signal = judged("jira", SEARCH, 429, headers, "Rate limit exceeded.")
    assert (signal.kind, signal.bucket, signal.after) == (Kind.PRIMARY, "*", None)
    assert (signal.detail, signal.is_reason_known) == (detail, False)


def test_jira_reason_of_too_many_threads_is_one_of_concurrency() -> None:
    signal = judged("jira", SEARCH, 429, refused_headers("jira-max-concurrent-threads-per-tenant"))
    assert (signal.kind, signal.bucket, signal.is_reason_known) == (Kind.SECONDARY, "*", False)
    assert signal.detail == "jira-max-concurrent-threads-per-tenant"


@pytest.mark.parametrize(("value", "after"), [("0", 1.0), ("1", 1.0), ("3600", 3600.0), ("86400", 86400.0)])
def test_s10_stated_wait_is_a_minimum_and_never_below_a_second(value: str, after: float) -> None:
    headers = refused_headers("jira-burst-based", Retry_After=value, X_RateLimit_Reset="2026-10-21T07:26:31Z")
    assert judged("jira", SEARCH, 429, headers).after == after


def test_s10_beta_retry_after_is_only_advice() -> None:
    assert judged("jira", SEARCH, 429, {"Beta-Retry-After": "5"}).after is None


@pytest.mark.parametrize(
    ("reset", "after"),
    [
        ("2026-10-21T07:28:00Z", 90.0),
        ("2026-10-21T07:28Z", 90.0),
        ("2026-10-21T00:28:00-0700", 90.0),
        ("2026-10-21T07:26:28Z", 1.0),
        ("2026-10-21T07:28:00", None),
        ("1792567680", None),
    ],
)
def test_jira_reset_without_a_stated_wait_is_read_as_iso_8601(reset: str, after: float | None) -> None:
    assert judged("jira", SEARCH, 429, refused_headers("jira-burst-based", X_RateLimit_Reset=reset)).after == after


@pytest.mark.parametrize("prefix", ["", "Beta-", "beta-"])
@pytest.mark.parametrize(
    ("policy", "state", "quota"),
    [
        (POLICY, STATE, Quota("points", 65_000, 11_000, 600.0)),
        ("global-app-quota;w=3600;q=65000", "global-app-quota ; t=600 ; r=11000", Quota("points", 65_000, 11_000, 600.0)),
        (POLICY, '"global-app-quota";t=600', Quota("points", 65_000, 13_000, 600.0)),
        (POLICY, "", Quota("points", 65_000, 13_000)),
        ("", STATE, Quota("points", None, 11_000, 600.0)),
        (POLICY, '"global-app-quota";r=0;t=0', Quota("points", 65_000, 0, 0.0)),
        (POLICY, '"global-app-quota";r=5;t=90000', Quota("points", 65_000, 5)),
        (f'"tenant-quota";q=100000;w=3600, {POLICY}', f'{STATE}, "tenant-quota";t=600', Quota("points", 65_000, 11_000, 600.0)),
        (f'{POLICY},"tenant-quota";q=100000', f'"tenant-quota";t=60;r=7,{STATE}', Quota("points", 100_000, 7, 60.0)),
    ],
)  # fmt: skip
def test_jira_structured_headers_tell_the_scarcest_quota(policy: str, state: str, quota: Quota, prefix: str) -> None:
    signal = judged("jira", SEARCH, 200, {**BURST_HEADERS, **structured(policy, state, prefix=prefix)})
    assert signal == RateSignal(Kind.OK, "points", quotas=(quota,))


@pytest.mark.parametrize("state", ["", ",,", ";;", '"x"', '"x";r=;t=', '"x";r=-1', "🙂;r=1", '"x";r=1.5;t=a', "=;=,;,"])
def test_s34_structured_headers_that_tell_nothing_leave_points_uncounted(state: str) -> None:
    assert judged("jira", SEARCH, 200, structured("", state)).quotas == (Quota("points", limit=0),)


@pytest.mark.parametrize("headers", [{}, BURST_HEADERS])
def test_s34_token_without_a_quota_of_points_is_not_counted(headers: dict[str, str]) -> None:
    assert judged("jira", SEARCH, 200, headers) == RateSignal(Kind.OK, "points", quotas=(Quota("points", limit=0),))


def test_s34_quota_of_0_points_is_not_counted() -> None:
    signal = judged("jira", SEARCH, 200, structured('"x";q=0;w=3600', '"x";r=0;t=1'))
    assert signal.quotas == (Quota("points", limit=0),)


@pytest.mark.parametrize(
    ("value", "kind"), [("true", Kind.NEAR), ("TRUE", Kind.NEAR), ("false", Kind.OK), ("", Kind.OK)]
)
def test_jira_success_near_the_limit_says_so(value: str, kind: Kind) -> None:
    signal = judged("jira", SEARCH, 200, {"X-RateLimit-NearLimit": value, **structured(POLICY, STATE)})
    assert (signal.kind, signal.bucket) == (kind, "points")
    assert signal.quotas == (Quota("points", 65_000, 11_000, 600.0),)


@pytest.mark.parametrize(
    ("endpoint", "status", "more"), [(SEARCH, 404, {}), (SEARCH, 200, {"Age": "9"}), ("oauth.token", 200, {})]
)
def test_jira_near_limit_of_other_replies_says_nothing(endpoint: str, status: int, more: dict[str, str]) -> None:
    headers = {"X-RateLimit-NearLimit": "true", **structured(POLICY, STATE), **more}
    assert judged("jira", endpoint, status, headers).kind is not Kind.NEAR


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 500, 502, 503])
def test_jira_reply_that_is_no_429_refuses_nothing(status: int) -> None:
    assert judged("jira", SEARCH, status, BURST_HEADERS, TOO_MANY).kind is Kind.OTHER


def test_jira_refusal_tells_what_is_left_too() -> None:
    headers = {**refused_headers("jira-quota-tenant-based"), **structured(POLICY, '"global-app-quota";r=0;t=600')}
    assert judged("jira", SEARCH, 429, headers).quotas == (Quota("points", 65_000, 0, 600.0),)
