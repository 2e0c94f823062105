from typing import Any

import pytest

from bench import github_figures, github_peer, github_truth
from bench.github_figures import COLUMNS, Taken
from bench.github_server import LATENCY_SECONDS, World
from bench.github_truth import Difference

SPREAD = World("spread", repositories=20, pull_requests=100)
SINGLE = World("single", repositories=1, pull_requests=2000)
NAMES = [f"acme/{number}" for number in range(20)]


def taken(seconds: float = 4.0, **changes: Any) -> Taken:
    given = {
        "pull_requests": 2000, "seconds": seconds, "requests": 100, "slots": 20, "records": 20000, "given_back": 0,
        "cpu_seconds": 1.0, "postgres_cpu_seconds": 0.5, "server_cpu_seconds": 0.1, **changes,
    }  # fmt: skip
    return Taken(**given)


def truth(state: str = "OPEN") -> dict[str, dict[str, Any]]:
    return {
        "acme/api": {
            "pull_requests": {"1": {"state": state, "head_sha": "b", "updated_at": "2026-06-01T12:00:00Z"}},
            "reviews": {"7": {"pull_request": "1", "state": "APPROVED"}},
            "pull_request_commits": {
                "1:a": {"pull_request": "1", "ordinal": 0},
                "1:b": {"pull_request": "1", "ordinal": 1},
            },
            "pull_request_events": {
                "E1": {"parent": "1", "kind": "ready_for_review"},
                "E2": {"parent": "1", "kind": "labeled"},
            },
        }
    }


def item(**changes: Any) -> dict[str, Any]:
    return {"pull_request": "1", "reviews": ["7"], "commits": ["a", "b"], **changes}


# Figures


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("per_second", 500.0),
        ("requests_per_pull_request", 0.05),
        ("ideal_seconds", 0.25),  # 100 requests of 50 ms by 20 slots
        ("ideal_percent", 6.2),
        ("cpu_ms_per_pull_request", 0.5),
        ("postgres_cpu_ms_per_pull_request", 0.25),
        ("server_cpu_ms_per_pull_request", 0.05),
    ],
)
def test_figures_follow_from_what_was_taken(key: str, value: float) -> None:
    assert taken().figures(0.05)[key] == value


def test_figures_of_who_stores_nothing_name_no_postgres() -> None:
    assert taken(postgres_cpu_seconds=None).figures(0.05)["postgres_cpu_ms_per_pull_request"] is None


def test_side_is_the_medians_of_its_runs() -> None:
    side = github_figures.side("ours", "", [taken(4.0), taken(2.0), taken(5.0)], 0.05)

    assert (side["seconds"], side["per_second"], len(side["runs"])) == (4.0, 500.0, 3)


def test_ratios_are_those_of_the_first_side() -> None:
    sides = [github_figures.side(name, "", [taken(seconds)], 0.05) for name, seconds in (("ours", 1.0), ("peer", 20.0))]

    assert github_figures.ratios(sides) == {"peer": 20.0}


def report(*, is_right: bool = True) -> dict[str, Any]:
    sides = [
        github_figures.side("ours", "", [taken()], 0.05),
        github_figures.side("peer", "", [taken(40.0, postgres_cpu_seconds=None)], 0.05),
    ]
    differences = {"missing": 1, "double": 0, "unknown": 0, "stale": 2}
    return {
        "rows": [
            {"row": "20 x 100", "ratios": github_figures.ratios(sides), "sides": sides, "checks": {"all": is_right}}
        ],
        "live": [{"row": "20 x 100", "changes": 40, "during": differences, "after": dict.fromkeys(differences, 0)}],
    }


def test_markdown_has_a_line_for_each_side_and_each_world() -> None:
    lines = github_figures.markdown(report()).splitlines()

    assert lines[2].startswith("| 20 x 100 | ours | 2,000 | 20 | 4 | 500 |")
    assert lines[3].endswith("| – | 0.05 | 10 x |")
    assert lines[-1] == "| 20 x 100 | 40 | 3 | 0 | 0 |"
    assert {line.count("|") for line in lines[:4]} == {len(COLUMNS) + 4}


def test_broken_names_the_checks_that_failed() -> None:
    assert github_figures.broken(report()) == []
    assert github_figures.broken(report(is_right=False)) == ["20 x 100: all"]


# Truth


def test_wanted_has_each_record_once_in_our_words() -> None:
    assert github_truth.wanted(truth()) == [
        ("pull_requests", "1", "open", "b", "2026-06-01T12:00:00Z"),
        ("reviews", "7", "1", "approved"),
        ("pr_commits", "1 a", "0"),
        ("pr_commits", "1 b", "1"),
        ("pr_events", "E1", "1", "ready"),
    ]


def test_difference_is_none_where_all_is_stored() -> None:
    must = github_truth.wanted(truth())

    assert github_truth.difference(must, reversed(must)) == Difference(total=5)
    assert github_truth.difference(must, must).is_none


@pytest.mark.parametrize("name", ["missing", "double", "unknown", "stale"])
def test_difference_counts(name: str) -> None:
    must = github_truth.wanted(truth())
    shown = {
        "missing": must[1:],
        "double": [*must, must[0]],
        "unknown": [*must, ("reviews", "8", "1", "approved")],
        "stale": github_truth.wanted(truth(state="MERGED")),
    }[name]

    found = github_truth.difference(must, shown)

    assert found == Difference(**{"total": 5, name: 1})
    assert not found.is_none


# Peer


@pytest.mark.parametrize(
    ("world", "most", "repositories", "of_each"),
    [
        (SPREAD, None, 20, 100),
        (SPREAD, 200, 2, 100),
        (SPREAD, 50, 1, 50),
        (SINGLE, None, 1, 2000),
        (SINGLE, 200, 1, 200),
        (World("small", repositories=20, pull_requests=3), 30, 10, 3),
    ],
)
def test_share_is_so_many_in_all(world: World, most: int | None, repositories: int, of_each: int) -> None:
    names = NAMES[: world.repositories]

    assert github_peer.share(world, names, most) == (names[:repositories], of_each)


@pytest.mark.parametrize(
    ("items", "is_right"),
    [
        ([item()], True),
        ([], True),
        ([item(), item()], False),
        ([item(reviews=[])], False),
        ([item(reviews=["7", "7"])], False),
        ([item(commits=["a"])], False),
        ([item(pull_request="2")], False),
    ],
)
def test_reading_is_right_where_it_holds_what_is_there(items: list[dict[str, Any]], is_right: bool) -> None:
    assert github_peer.is_right(items, truth()) is is_right


# Server


def test_server_answers_late_remembers_and_has_no_limit() -> None:
    command = SPREAD.command()

    def given(option: str) -> str:
        return command[command.index(option) + 1]

    assert (given("--repositories"), given("--pull-requests"), given("--issues")) == ("20", "100", "0")
    assert float(given("--latency")) == LATENCY_SECONDS
    assert {int(given(f"--{name}")) for name in ("core", "graphql", "concurrency", "points", "graphql-points")} == {
        10**9
    }
    assert "--remembers" in command


def test_world_has_a_host_of_its_own() -> None:
    assert (SPREAD.host, SPREAD.total, SINGLE.total) == ("spread.localhost", 2000, 2000)
