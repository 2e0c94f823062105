import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime

import pytest

from tests.integration.demo.conftest import Client
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.limits import Rules
from worker_app.demo.server import Latency

QUERY = "query { viewer { login } rateLimit { cost limit remaining used resetAt } }"


def test_used_up_quota_is_refused_with_githubs_headers(
    start: Callable[..., FakeGitHub], connect: Callable[..., Client]
) -> None:
    client = connect(start(rules=Rules(core=2, period=3600)))
    answers = [client.get("/user") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 403]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["1", "0", "0"]
    refused = answers[-1]
    assert refused.json()["message"].startswith("API rate limit exceeded")
    assert (refused.headers["x-ratelimit-limit"], refused.headers["x-ratelimit-resource"]) == ("2", "core")
    date = parsedate_to_datetime(refused.headers["date"]).timestamp()
    assert 3590 < int(refused.headers["x-ratelimit-reset"]) - date <= 3600
    assert "retry-after" not in refused.headers


def test_used_up_points_are_refused_with_status_200(
    start: Callable[..., FakeGitHub], connect: Callable[..., Client]
) -> None:
    github = start(rules=Rules(graphql=1))
    client = connect(github)
    first, second = client.ask(QUERY), client.ask(QUERY)
    assert first.json()["data"]["rateLimit"]["remaining"] == 0
    assert (second.status_code, second.headers["x-ratelimit-resource"]) == (200, "graphql")
    assert "data" not in second.json()
    assert [error["type"] for error in second.json()["errors"]] == ["RATE_LIMITED"]
    assert client.get("/user").status_code == 200


def test_too_many_at_once_are_refused_with_quota_left(
    start: Callable[..., FakeGitHub], connect: Callable[..., Client]
) -> None:
    github = start(rules=Rules(concurrency=3, retry_after=7), latency=Latency(0.2))
    clients, gate = [connect(github) for _ in range(6)], threading.Barrier(6)

    def get(client: Client) -> tuple[int, str | None]:
        gate.wait(5)
        answer = client.get("/user")
        assert int(answer.headers["x-ratelimit-remaining"]) > 4000
        return answer.status_code, answer.headers.get("retry-after")

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(get, clients))
    assert found.count((200, None)) == 3
    assert found.count((403, "7")) == 3
    assert max(entry.in_flight for entry in github.log.entries()) > 3


def test_block_is_counted_for_those_who_could_have_known(
    start: Callable[..., FakeGitHub], connect: Callable[..., Client]
) -> None:
    github = start(rules=Rules(points=1, retry_after=600))
    client = connect(github)
    assert [client.get("/user").status_code for _ in range(4)] == [200, 403, 403, 403]
    (episode,) = github.episodes
    assert (episode.credential, episode.bucket, episode.refused, episode.late) == ("demo", "*", 3, 2)
    assert github.service.limits.accepted == {"core": 1}


@pytest.mark.parametrize("status", [403, 429])
def test_secondary_refusal_may_name_no_wait(
    start: Callable[..., FakeGitHub], connect: Callable[..., Client], status: int
) -> None:
    client = connect(start(rules=Rules(points=0, retry_after=None, refusal_status=status)))
    answer = client.get("/user")
    assert answer.status_code == status
    assert "secondary rate limit" in answer.json()["message"]
    assert "retry-after" not in answer.headers


def test_enterprise_host_without_limits_sends_no_headers(
    start: Callable[..., FakeGitHub], connect: Callable[..., Client]
) -> None:
    client = connect(start(rules=Rules(core=None, graphql=None)))
    answer = client.get("/api/v3/repos/acme/api")
    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.lower().startswith("x-ratelimit")]
    assert client.get("/api/v3/rate_limit").status_code == 404
    assert client.ask(QUERY).json()["data"]["rateLimit"] is None


def test_log_names_the_credential_and_never_the_token(github: FakeGitHub, client: Client) -> None:
    client.get("/user")
    client.get("/repos/acme/api/issues?per_page=1")
    entries = github.log.entries()
    assert [(entry.credential, entry.endpoint, entry.status) for entry in entries] == [
        ("demo", "GET /user", 200),
        ("demo", "GET /repos/{owner}/{repo}/issues", 200),
    ]
    assert github.token not in repr(entries)
