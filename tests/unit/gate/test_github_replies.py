import pytest

from tests.unit.gate.sent import NOW_SECONDS, judged
from worker_app.gate.signals import Kind, Quota, RateSignal

PULLS = "pulls.comments"
DOCS = "https://docs.github.com/rest/overview/resources-in-the-rest-api"
SECONDARY_WORDS = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
ABUSE_WORDS = "You have triggered an abuse detection mechanism. Please wait a few minutes before you try again."
PRIMARY_WORDS = "API rate limit exceeded for installation ID 12345."
ALREADY_WORDS = "API rate limit already exceeded for user ID 12345."
PERMISSION_WORDS = "Resource not accessible by integration"


def quota_headers(remaining: int, *, resource: str = "core", reset_in: int = 1800, limit: int = 5000) -> dict[str, str]:
    return {
        "X-RateLimit-Limit": str(limit),
        "X-RateLimit-Remaining": str(remaining),
        "X-RateLimit-Used": str(limit - remaining),
        "X-RateLimit-Resource": resource,
        "X-RateLimit-Reset": str(NOW_SECONDS + reset_in),
    }


def said(message: str) -> dict[str, str]:
    return {"message": message, "documentation_url": DOCS}


def core(remaining: int, reset_in: float = 1800.0) -> tuple[Quota, ...]:
    return (Quota("core", 5000, remaining, reset_in),)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (200, Kind.OK),
        (201, Kind.OK),
        (304, Kind.OK),
        (301, Kind.OTHER),
        (401, Kind.OTHER),
        (404, Kind.OTHER),
        (409, Kind.OTHER),
        (410, Kind.OTHER),
        (422, Kind.OTHER),
        (451, Kind.OTHER),
        (500, Kind.OTHER),
        (502, Kind.OTHER),
        (504, Kind.OTHER),
    ],
)
def test_github_reply_that_is_no_refusal_tells_what_is_left(status: int, kind: Kind) -> None:
    assert judged("github", PULLS, status, quota_headers(4987)) == RateSignal(kind, "core", quotas=core(4987))


@pytest.mark.parametrize("status", [200, 304, 404])
def test_github_reply_with_nothing_left_is_no_refusal(status: int) -> None:
    signal = judged("github", PULLS, status, quota_headers(0))
    assert signal.kind is not Kind.PRIMARY
    assert signal.quotas == core(0)


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("words", [SECONDARY_WORDS, ABUSE_WORDS, SECONDARY_WORDS.upper()])
@pytest.mark.parametrize("left", [{}, quota_headers(4000)])
def test_s02_secondary_limit_without_a_stated_wait_is_found_by_its_words(
    status: int, words: str, left: dict[str, str]
) -> None:
    signal = judged("github", PULLS, status, left, said(words))
    assert (signal.kind, signal.bucket, signal.after) == (Kind.SECONDARY, "*", None)
    assert signal.detail == words[:120]


def test_s02_secondary_limit_is_found_in_a_page_that_is_no_json() -> None:
    page = "<html><title>Whoa there!</title>You have triggered an abuse detection mechanism.</html>"
    assert judged("github", PULLS, 403, body=page).kind is Kind.SECONDARY


@pytest.mark.parametrize("status", [403, 429])
def test_s03_stated_wait_is_a_limit_though_quota_is_left(status: int) -> None:
    signal = judged("github", PULLS, status, {**quota_headers(4000), "Retry-After": "58"}, said(PERMISSION_WORDS))
    assert (signal.kind, signal.bucket, signal.after) == (Kind.SECONDARY, "*", 58.0)
    assert signal.quotas == core(4000)


@pytest.mark.parametrize("body", [said(PERMISSION_WORDS), said(""), {}, [], "", "<html>Forbidden</html>"])
def test_s03_plain_403_closes_nothing(body: object) -> None:
    signal = judged("github", PULLS, 403, quota_headers(4000), body)
    assert (signal.kind, signal.quotas) == (Kind.OTHER, core(4000))


def test_s03_limit_words_outside_the_message_close_nothing() -> None:
    body = {"message": PERMISSION_WORDS, "documentation_url": f"{DOCS}#rate limit", "rate limit": "rate limit"}
    assert judged("github", PULLS, 403, quota_headers(4000), body).kind is Kind.OTHER


def test_s04_secondary_limit_does_not_last_until_the_hourly_reset() -> None:
    signal = judged("github", PULLS, 403, quota_headers(4000, reset_in=3500), said(SECONDARY_WORDS))
    assert (signal.kind, signal.after, signal.after_at_ms) == (Kind.SECONDARY, None, None)


def test_s04_stated_wait_goes_before_the_hourly_reset() -> None:
    signal = judged("github", PULLS, 403, {**quota_headers(0), "Retry-After": "60"}, said(SECONDARY_WORDS))
    assert (signal.kind, signal.bucket, signal.after) == (Kind.SECONDARY, "*", 60.0)


@pytest.mark.parametrize("body", [said(PERMISSION_WORDS), "", {}])
def test_s05_429_is_a_limit_whatever_it_says(body: object) -> None:
    signal = judged("github", PULLS, 429, quota_headers(4000), body)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.SECONDARY, "*", None)


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize("words", [PRIMARY_WORDS, ALREADY_WORDS, PERMISSION_WORDS])
def test_s05_quota_used_up_closes_the_bucket_until_its_reset(status: int, words: str) -> None:
    signal = judged("github", PULLS, status, quota_headers(0), said(words))
    assert (signal.kind, signal.bucket, signal.after) == (Kind.PRIMARY, "core", 1800.0)
    assert (signal.quotas, signal.detail) == (core(0), words)


def test_s07_reset_in_the_past_is_the_shortest_wait() -> None:
    signal = judged("github", PULLS, 403, quota_headers(0, reset_in=-3), said(PRIMARY_WORDS))
    assert (signal.kind, signal.after, signal.quotas) == (Kind.PRIMARY, 1.0, core(0, 0.0))


def test_s07_reset_of_yesterday_states_no_wait() -> None:
    signal = judged("github", PULLS, 403, quota_headers(0, reset_in=-86_400), said(PRIMARY_WORDS))
    assert (signal.kind, signal.after) == (Kind.PRIMARY, None)
    assert signal.quotas == (Quota("core", 5000, 0),)
    assert signal.quarantined == (str(NOW_SECONDS - 86_400),)


def test_s11_retry_after_in_a_date_is_a_wait() -> None:
    signal = judged("github", PULLS, 429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"})
    assert signal.after == 90.0


def test_s12_retry_after_beyond_belief_is_still_a_limit() -> None:
    signal = judged("github", PULLS, 403, {"Retry-After": "9" * 5000}, said(PERMISSION_WORDS))
    assert (signal.kind, signal.after, signal.quarantined) == (Kind.SECONDARY, None, ("9" * 64,))


@pytest.mark.parametrize("headers", [{}, {"X-RateLimit-Limit": "0", "X-RateLimit-Remaining": "0"}])
def test_s34_server_without_limits_is_not_counted(headers: dict[str, str]) -> None:
    assert judged("github", "repos.get", 200, headers) == RateSignal(Kind.OK, "core", quotas=(Quota("core", limit=0),))


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_s34_403_of_a_server_without_limits_is_a_permission(limit: str) -> None:
    headers = {"X-RateLimit-Limit": limit, "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "0"}
    assert judged("github", "repos.get", 403, headers, said("Must have admin rights")).kind is Kind.OTHER


@pytest.mark.parametrize("status", [304, 404, 500])
def test_s34_only_a_whole_answer_shows_that_a_bucket_is_not_counted(status: int) -> None:
    assert judged("github", "repos.get", status).quotas == ()


@pytest.mark.parametrize("word", ["RATE_LIMITED", "RATE_LIMIT"])
@pytest.mark.parametrize("data", [{}, {"data": None}, {"data": {"viewer": None}}])
def test_s35_graphql_refuses_with_200(word: str, data: dict[str, object]) -> None:
    body = {**data, "errors": [{"type": word, "message": PRIMARY_WORDS}]}
    signal = judged("github", "graphql", 200, quota_headers(0, resource="graphql"), body)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.PRIMARY, "graphql", 1800.0)
    assert signal.detail == PRIMARY_WORDS


def test_s35_graphql_that_refuses_with_points_left_states_no_wait() -> None:
    body = {"errors": [{"type": "NOT_FOUND"}, {"type": "RATE_LIMITED", "message": ALREADY_WORDS}]}
    signal = judged("github", "graphql", 200, quota_headers(4000, resource="graphql"), body)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.PRIMARY, "graphql", None)


def test_s35_graphql_with_data_and_nothing_left_is_a_success() -> None:
    body = {"data": {"repository": {"name": "rate limit"}}, "errors": [{"type": "NOT_FOUND", "message": "rate limit"}]}
    signal = judged("github", "graphql", 200, quota_headers(0, resource="graphql"), body)
    assert (signal.kind, signal.bucket) == (Kind.OK, "graphql")
    assert signal.quotas == (Quota("graphql", 5000, 0, 1800.0),)


@pytest.mark.parametrize(
    "body", [said(SECONDARY_WORDS), {"data": None, "errors": [{"message": SECONDARY_WORDS}]}, SECONDARY_WORDS]
)
def test_s35_graphql_tells_of_a_secondary_limit_with_200(body: object) -> None:
    signal = judged("github", "graphql", 200, quota_headers(4000, resource="graphql"), body)
    assert (signal.kind, signal.bucket, signal.after) == (Kind.SECONDARY, "*", None)


def test_s35_graphql_tells_of_a_secondary_limit_with_403() -> None:
    signal = judged("github", "graphql", 403, {"Retry-After": "30"}, said(SECONDARY_WORDS))
    assert (signal.kind, signal.bucket, signal.after) == (Kind.SECONDARY, "*", 30.0)


@pytest.mark.parametrize(
    "errors", [None, "RATE_LIMITED", [None, "RATE_LIMITED", []], [{"type": ["RATE_LIMITED"]}], [{}]]
)
def test_graphql_errors_of_another_shape_close_nothing(errors: object) -> None:
    assert judged("github", "graphql", 200, body={"data": {}, "errors": errors}).kind is Kind.OK


@pytest.mark.parametrize("words", [ALREADY_WORDS, ALREADY_WORDS.lower()])
def test_s36_limit_already_exceeded_is_recognised_without_headers(words: str) -> None:
    assert judged("github", PULLS, 403, body=said(words)).kind is Kind.SECONDARY


@pytest.mark.parametrize("endpoint", ["repos.get", "graphql", "installation.token"])
def test_github_numbers_of_another_resource_close_only_the_endpoint(endpoint: str) -> None:
    signal = judged("github", endpoint, 403, quota_headers(0, resource="search"), said(PRIMARY_WORDS))
    own = {"repos.get": "ep.repos.get", "graphql": "graphql", "installation.token": "auth"}[endpoint]
    assert (signal.kind, signal.bucket, signal.quotas) == (Kind.PRIMARY, own, ())


@pytest.mark.parametrize("resource", ["search", "ep.repos.get", "*", "auth", "graphql"])
def test_github_numbers_of_another_resource_say_nothing_of_core(resource: str) -> None:
    assert judged("github", "repos.get", 200, quota_headers(0, resource=resource)).quotas == ()


def test_github_app_token_says_nothing_of_the_quota_of_the_installation() -> None:
    assert judged("github", "installation.token", 201, quota_headers(4999)).quotas == ()
    assert judged("github", "installation.token", 201).quotas == ()


@pytest.mark.parametrize(("age", "quotas"), [("0", core(0)), ("17", ())])
def test_github_reply_of_a_cache_says_nothing_of_quota(age: str, quotas: tuple[Quota, ...]) -> None:
    assert judged("github", PULLS, 200, {**quota_headers(0), "Age": age}) == RateSignal(Kind.OK, "core", quotas=quotas)


def test_github_refusal_of_a_cache_is_judged_by_its_words() -> None:
    headers = {**quota_headers(0), "Age": "17"}
    assert judged("github", PULLS, 403, headers, said(PERMISSION_WORDS)).kind is Kind.OTHER
    assert judged("github", PULLS, 403, headers, said(PRIMARY_WORDS)).kind is Kind.SECONDARY


def test_github_reply_without_a_date_leaves_the_moment_to_the_clock_of_redis() -> None:
    signal = judged("github", PULLS, 403, quota_headers(0), said(PRIMARY_WORDS), date=None)
    reset_ms = (NOW_SECONDS + 1800) * 1000
    assert (signal.after, signal.after_at_ms) == (None, reset_ms)
    assert signal.quotas == (Quota("core", 5000, 0, reset_at_ms=reset_ms),)


@pytest.mark.parametrize("date", ["", "yesterday", "Wed, 32 Oct 2026 07:26:30 GMT"])
def test_github_reply_with_a_wrong_date_is_one_without(date: str) -> None:
    assert judged("github", PULLS, 200, {**quota_headers(7), "Date": date}, date=None).quotas[0].reset_in is None


def test_github_headers_are_read_in_any_case() -> None:
    headers = {name.upper(): value for name, value in quota_headers(7).items()}
    assert judged("github", PULLS, 200, headers).quotas == core(7)


@pytest.mark.parametrize("remaining", ["", "-1", "many", "4.5", "٤", "9" * 400])
def test_github_remaining_that_is_no_count_is_not_taken(remaining: str) -> None:
    assert judged("github", PULLS, 304, {**quota_headers(7), "X-RateLimit-Remaining": remaining}).quotas == ()


def test_github_limit_that_is_no_count_leaves_what_remains() -> None:
    headers = {**quota_headers(7), "X-RateLimit-Limit": "many"}
    assert judged("github", PULLS, 200, headers).quotas == (Quota("core", None, 7, 1800.0),)


def test_refusal_does_not_repeat_a_token_that_the_provider_echoes() -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    signal = judged("github", PULLS, 429, body=said(f"rate limit\n of {token}\x00 exceeded, see {DOCS}"))
    assert signal.detail == f"rate limit of … exceeded, see {DOCS}"
