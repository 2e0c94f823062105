"""Policies: the four providers as data. The numbers are for pacing and tests; what is left of a quota comes from headers.

A paced bucket is chosen so that `burst + period / gap` stays below the provider's number for that period.
"""

import math
from collections.abc import Iterable, Mapping

from worker_app.gate import github_replies, gitlab_replies, jira_replies, linear_replies
from worker_app.gate.policy import BucketPolicy, Endpoint, ProviderPolicy

MINUTE, HOUR = 60.0, 3600.0  # seconds
UNCOUNTED = BucketPolicy()  # neither counted nor paced: it only ever closes after a refusal


def _paced(most: int, period: float) -> BucketPolicy:
    """Lets 90 % of `most` requests pass in `period` seconds, a tenth of them at once; gaps are whole milliseconds."""
    return BucketPolicy(period=period, gap=math.ceil(period * 1000 / (0.8 * most)) / 1000, burst=most // 10)


def _endpoints(wide: Iterable[str], names: Iterable[str]) -> dict[str, Endpoint]:
    """Endpoints that are counted in the buckets `wide`, and each in one of its own."""
    return {name: Endpoint(name, (*wide, f"ep.{name}")) for name in names}


def _own(names: Iterable[str], bucket: BucketPolicy) -> dict[str, BucketPolicy]:
    """The buckets that endpoints have for themselves."""
    return {f"ep.{name}": bucket for name in names}


# GitHub: 900 points a minute for each REST endpoint, 2,000 for GraphQL. What is counted in core depends on who asks.
# https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits
GITHUB_REST = (
    "repos.get",
    "repos.list",
    "commits.list",
    "commits.compare",
    "pulls.comments",
    "issues.list",
    "issues.timeline",
    "runs.list",
    "runs.get",
    "deployments.list",
    "deployments.statuses",
    "user.get",
)
GITHUB = ProviderPolicy(
    name="github",
    buckets={
        "core": BucketPolicy("fixed", period=HOUR),
        "graphql": BucketPolicy("fixed", period=HOUR, gap=0.034, burst=100, is_weighed=True),
        "write": BucketPolicy(gap=1.0),  # for endpoints that create content: 80 a minute; none of ours does
        "auth": UNCOUNTED,
        **_own(GITHUB_REST, BucketPolicy(gap=0.08, burst=50)),
    },
    endpoints={
        **_endpoints(["core"], GITHUB_REST),
        "graphql": Endpoint("graphql", ("graphql",)),
        "installation.get": Endpoint("installation.get", ("auth",)),
        "installation.token": Endpoint("installation.token", ("auth",)),
    },
    max_conc=20,
    judge=github_replies.judge,
)

# GitLab: requests for each endpoint and period in seconds, where gitlab.com counts it by itself. The Projects, Groups and
# Users APIs send no quota headers. https://docs.gitlab.com/user/gitlab_com/#rate-limits-on-gitlabcom
GITLAB_LIMITED = {
    "projects.get": (400, MINUTE),
    "projects.list": (2000, 10 * MINUTE),
    "groups.get": (400, MINUTE),
    "groups.list": (50, MINUTE),
    "groups.projects": (600, MINUTE),
    "projects.members": (200, MINUTE),
    "users.get": (300, 10 * MINUTE),
}
GITLAB_PLAIN = (
    "merge_requests.list",
    "merge_requests.commits",
    "merge_requests.notes",
    "merge_requests.approvals",
    "issues.list",
    "issues.state_events",
    "pipelines.list",
    "pipelines.get",
    "deployments.list",
    "commits.list",
    "user.get",
    "token.get",
)
GITLAB = ProviderPolicy(
    name="gitlab",
    buckets={
        "api": BucketPolicy("fixed", period=MINUTE),
        "auth": UNCOUNTED,
        **{f"ep.{name}": _paced(most, period) for name, (most, period) in GITLAB_LIMITED.items()},
        **_own(GITLAB_PLAIN, UNCOUNTED),
    },
    endpoints={
        **{name: Endpoint(name, ("api", f"ep.{name}"), silent=True, is_limited=True) for name in GITLAB_LIMITED},
        **_endpoints(["api"], GITLAB_PLAIN),
        "oauth.token": Endpoint("oauth.token", ("auth",)),
    },
    max_conc=10,
    judge=gitlab_replies.judge,
)

# Jira Cloud: points an hour, and for each endpoint 100 GET or POST a second, shared by all apps of the tenant.
# https://developer.atlassian.com/cloud/jira/platform/rate-limiting/
JIRA_ENDPOINTS = (
    "search.jql",
    "search.v2",
    "changelogs.bulk",
    "issues.get",
    "projects.get",
    "projects.list",
    "statuses.list",
    "fields.list",
    "myself.get",
)
JIRA = ProviderPolicy(
    name="jira",
    buckets={
        "points": BucketPolicy("fixed", period=HOUR, is_weighed=True),
        "auth": UNCOUNTED,
        **_own(JIRA_ENDPOINTS, _paced(100, 1.0)),
    },
    endpoints={
        **_endpoints(["points"], JIRA_ENDPOINTS),
        "oauth.token": Endpoint("oauth.token", ("auth",)),
    },
    max_conc=10,
    judge=jira_replies.judge,
)

# Linear: requests and complexity come back all the time. One address; the endpoints are the queries that are sent to it.
# https://linear.app/developers/rate-limiting
LINEAR_QUERIES = ("issues", "issue.history", "teams", "users", "viewer")
LINEAR = ProviderPolicy(
    name="linear",
    buckets={
        "requests": BucketPolicy("leaky", period=HOUR),
        "complexity": BucketPolicy("leaky", period=HOUR, is_weighed=True),
        "auth": UNCOUNTED,
        **_own(LINEAR_QUERIES, UNCOUNTED),
    },
    endpoints={
        **_endpoints(["requests", "complexity"], LINEAR_QUERIES),
        "oauth.token": Endpoint("oauth.token", ("auth",)),
    },
    max_conc=5,
    judge=linear_replies.judge,
)

POLICIES: Mapping[str, ProviderPolicy] = {policy.name: policy for policy in (GITHUB, GITLAB, JIRA, LINEAR)}
