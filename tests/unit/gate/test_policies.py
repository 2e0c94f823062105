import pytest

from worker_app.gate import github_replies, gitlab_replies, jira_replies, linear_replies
from worker_app.gate.policies import GITLAB_LIMITED, POLICIES
from worker_app.gate.policy import MOST_ENDPOINTS, BucketPolicy, ProviderPolicy

EVERY_POLICY = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def most_in(bucket: BucketPolicy, period: float) -> float:
    """Requests that the pace lets pass in any `period` seconds."""
    return bucket.burst + period / bucket.gap


@EVERY_POLICY
def test_policy_is_found_by_its_name(policy: ProviderPolicy) -> None:
    assert POLICIES[policy.name] is policy


@EVERY_POLICY
def test_policy_has_few_endpoints_each_under_its_own_name(policy: ProviderPolicy) -> None:
    assert 0 < len(policy.endpoints) <= MOST_ENDPOINTS
    assert all(policy.endpoint(name).name == name for name in policy.endpoints)


@EVERY_POLICY
def test_policy_guesses_no_endpoint(policy: ProviderPolicy) -> None:
    with pytest.raises(ValueError, match=r"no endpoint 'pulls\.everything'; it has "):
        policy.endpoint("pulls.everything")


@EVERY_POLICY
def test_endpoint_passes_buckets_of_its_policy(policy: ProviderPolicy) -> None:
    for endpoint in policy.endpoints.values():
        assert endpoint.buckets
        assert len(set(endpoint.buckets)) == len(endpoint.buckets)
        assert set(endpoint.buckets) <= set(policy.buckets)
        assert {name for name in endpoint.buckets if name.startswith("ep.")} <= {f"ep.{endpoint.name}"}


@EVERY_POLICY
def test_bucket_names_fit_into_a_lease_and_a_hash(policy: ProviderPolicy) -> None:
    assert not any(set(name) & set("*{}|,: ") for name in policy.buckets)


@EVERY_POLICY
def test_bucket_is_passed_by_an_endpoint(policy: ProviderPolicy) -> None:
    passed = {bucket for endpoint in policy.endpoints.values() for bucket in endpoint.buckets}
    assert set(policy.buckets) - passed <= {"write"}


@EVERY_POLICY
def test_bucket_has_a_period_and_a_gap_of_whole_milliseconds(policy: ProviderPolicy) -> None:
    for bucket in policy.buckets.values():
        assert bucket.period > 0
        assert bucket.burst >= 1
        assert bucket.gap >= 0
        assert bucket.gap * 1000 == pytest.approx(round(bucket.gap * 1000))


@EVERY_POLICY
def test_own_bucket_of_an_endpoint_is_not_counted_by_headers(policy: ProviderPolicy) -> None:
    assert all(bucket.model == "none" for name, bucket in policy.buckets.items() if name.startswith("ep."))


@pytest.mark.parametrize(
    ("provider", "counted"),
    [
        ("github", github_replies.COUNTED),
        ("gitlab", gitlab_replies.COUNTED),
        ("jira", jira_replies.COUNTED),
        ("linear", linear_replies.COUNTED),
    ],
)
def test_policy_counts_what_its_classifier_reads(provider: str, counted: frozenset[str] | tuple[str, ...]) -> None:
    buckets = POLICIES[provider].buckets
    assert {name for name, bucket in buckets.items() if bucket.model != "none"} == set(counted)


@EVERY_POLICY
def test_policy_starts_with_the_numbers_of_the_design(policy: ProviderPolicy) -> None:
    assert policy.max_conc == {"github": 20, "gitlab": 10, "jira": 10, "linear": 5}[policy.name]
    assert (policy.default_after, policy.guard, policy.request_deadline, policy.ramp) == (60.0, 1.0, 60.0, 5.0)


def test_github_rest_endpoint_stays_below_900_points_a_minute() -> None:
    policy = POLICIES["github"]
    for endpoint in policy.endpoints.values():
        if endpoint.buckets[0] == "core":
            assert most_in(policy.buckets[endpoint.own_bucket], 60.0) == pytest.approx(800)


def test_github_graphql_stays_below_2000_points_a_minute() -> None:
    assert 1800 < most_in(POLICIES["github"].buckets["graphql"], 60.0) < 1865


def test_github_writes_stay_below_80_a_minute() -> None:
    assert most_in(POLICIES["github"].buckets["write"], 60.0) == 61


@pytest.mark.parametrize(("name", "most", "period"), [(name, *limit) for name, limit in GITLAB_LIMITED.items()])
def test_gitlab_endpoint_is_paced_to_nine_tenths_of_its_limit(name: str, most: int, period: float) -> None:
    policy = POLICIES["gitlab"]
    assert policy.endpoint(name).silent
    assert policy.endpoint(name).is_limited
    assert 0.85 * most <= most_in(policy.buckets[f"ep.{name}"], period) <= 0.9 * most


def test_jira_endpoint_stays_below_100_requests_a_second() -> None:
    policy = POLICIES["jira"]
    for endpoint in policy.endpoints.values():
        if endpoint.buckets[0] == "points":
            assert 80 <= most_in(policy.buckets[endpoint.own_bucket], 1.0) <= 90


def test_linear_is_leaky_in_both_of_its_buckets() -> None:
    buckets = POLICIES["linear"].buckets
    assert {name for name, bucket in buckets.items() if bucket.model == "leaky"} == {"requests", "complexity"}
    assert [name for name, bucket in buckets.items() if bucket.is_weighed] == ["complexity"]
