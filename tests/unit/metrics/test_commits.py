from datetime import UTC, date, datetime
from typing import Any

from worker_app.metrics import commits
from worker_app.metrics.commits import Place
from worker_app.metrics.days import Reading
from worker_app.records import Commit

DAY = date(2026, 6, 1)
REPO, OTHER, ORG = Place("repo", "git/h/a"), Place("repo", "git/h/b"), Place("org", "o")


def commit(sha: str = "a", **changes: Any) -> Commit:
    moment = datetime(2026, 6, 1, 12, tzinfo=UTC)
    given: dict[str, Any] = {
        "ext_id": sha,
        "repo_ext_id": "h/a",
        "author_ext_id": None,
        "author_email_hash": b"x" * 32,
        "authored_at": moment,
        "committed_at": moment,
        "is_merge": False,
        "files": 1,
        "additions": 10,
        "deletions": 2,
    }
    return Commit(**{**given, **changes})


def values(found: list[Any], place: Place = REPO) -> dict[str, float | None]:
    return {row.metric: row.value for row in found if (row.grain, row.grain_id) == place}


def test_day_is_summed_per_repository_and_organisation() -> None:
    rows = commits.rows(
        DAY,
        [(REPO, commit("a")), (REPO, commit("b", author_email_hash=b"y" * 32)), (OTHER, commit("c"))],
        ORG,
        {},
    )
    assert values(rows) == {
        "commits": 2,
        "commit_authors": 2,
        "merge_commits": 0,
        "additions": 20,
        "deletions": 4,
        "files_touched": 2,
    }
    assert values(rows, ORG)["commits"] == 3
    assert values(rows, ORG)["commit_authors"] == 2


def test_count_has_num_and_n_equal_to_its_value_and_den_one() -> None:
    (row,) = [
        row
        for row in commits.rows(DAY, [(REPO, commit())], ORG, {})
        if row.metric == "additions" and row.grain == "repo"
    ]
    assert (row.value, row.num, row.n, row.den, row.definition_v, row.day) == (10.0, 10.0, 10, 1.0, 1, DAY)


def test_day_without_commits_has_no_row() -> None:
    assert commits.rows(DAY, [], ORG, {}) == []


def test_merge_counts_and_has_no_lines_of_its_own() -> None:
    merge = commit("m", is_merge=True, files=None, additions=None, deletions=None)
    assert values(commits.rows(DAY, [(REPO, merge)], ORG, {})) == {
        "commits": 1,
        "commit_authors": 1,
        "merge_commits": 1,
    }


def test_same_sha_in_two_repositories_counts_once_for_the_organisation() -> None:
    rows = commits.rows(DAY, [(REPO, commit("a")), (OTHER, commit("a", repo_ext_id="h/b"))], ORG, {})
    assert values(rows)["commits"] == values(rows, OTHER)["commits"] == values(rows, ORG)["commits"] == 1


def test_author_without_identity_counts_as_one_unknown() -> None:
    nobody = [(REPO, commit(sha, author_email_hash=None)) for sha in "ab"]
    assert values(commits.rows(DAY, nobody, ORG, {}))["commit_authors"] == 1


def test_row_carries_how_completely_its_day_was_read() -> None:
    watermark = datetime(2026, 6, 2, tzinfo=UTC)
    rows = commits.rows(DAY, [(REPO, commit())], ORG, {REPO: Reading(1.0, watermark)})
    assert {(row.grain, row.coverage, row.input_watermark) for row in rows} == {
        ("repo", 1.0, watermark),
        ("org", 0.0, None),
    }


def test_repository_names_never_meet_across_hosts_and_providers() -> None:
    assert commits.repo_place("git", "github.com", "github.com/acme/app").grain_id == "git/github.com/acme/app"
    assert commits.repo_place("git", "localhost", "/srv/app").grain_id == "git/localhost/srv/app"
    assert commits.repo_place("github", "github.com", "42").grain_id == "github/github.com/42"
