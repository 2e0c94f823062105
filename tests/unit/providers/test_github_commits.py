import hashlib
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies

from tests.github_answers import ORG, SOURCE
from worker_app.providers import github_commits
from worker_app.providers.github_commits import Frontier

Graph = dict[str, list[str]]  # sha -> parents


def node(**changes: Any) -> dict[str, Any]:
    return {
        "oid": "a1",
        "authoredDate": "2026-03-01T00:30:00Z",
        "committedDate": "2026-03-01T01:30:00+01:00",
        "additions": 5,
        "deletions": 2,
        "changedFilesIfAvailable": 3,
        "author": {"email": "Ada@Example.com ", "user": {"id": "U_1"}},
        "parents": {"totalCount": 1, "nodes": [{"oid": "b2"}]},
        **changes,
    }


def test_commit_is_mapped() -> None:
    found = github_commits.commit(node(), SOURCE)

    assert (found.ext_id, found.repo_ext_id, found.author_ext_id, found.is_merge) == ("a1", "42", "U_1", False)
    assert (found.files, found.additions, found.deletions) == (3, 5, 2)
    assert found.authored_at == found.committed_at == datetime(2026, 3, 1, 0, 30, tzinfo=UTC)
    assert found.author_email_hash == hashlib.sha256(ORG.bytes + b"ada@example.com").digest()


@pytest.mark.parametrize("author", [None, {"email": None, "user": None}, {"email": " ", "user": None}])
def test_f20_author_that_is_gone_is_nobody(author: Any) -> None:
    found = github_commits.commit(node(author=author), SOURCE)

    assert (found.author_ext_id, found.author_email_hash) == (None, None)


def test_lines_of_a_merge_are_no_evidence() -> None:
    two = {"totalCount": 2, "nodes": [{"oid": "b2"}, {"oid": "c3"}]}

    found = github_commits.commit(node(parents=two), SOURCE)

    assert (found.is_merge, found.files, found.additions, found.deletions) == (True, None, None, None)


def test_parents_that_are_not_shown_are_marked() -> None:
    assert github_commits.parents(node()) == ["b2"]
    assert github_commits.parents(node(parents={"totalCount": 2, "nodes": [{"oid": "b2"}]})) == ["b2", "hidden"]
    assert github_commits.parents(node(parents={"totalCount": 1, "nodes": [None]})) == ["hidden"]


def ancestors(graph: Graph, sha: str) -> set[str]:
    found, waiting = set(), [sha]
    while waiting:
        if (one := waiting.pop()) not in found:
            found.add(one)
            waiting += graph[one]
    return found


def walked(graph: Graph, order: Iterable[str], tip: str, head: str) -> tuple[list[str], list[str]]:
    """What the walk met before it was over, and what of it may be new."""
    frontier, met, new = Frontier.between(tip, head), [], []
    for sha in order:
        met.append(sha)
        if frontier.meet(sha, graph[sha]):
            new.append(sha)
        if len(met) % 3 == 0:  # another process goes on
            frontier = Frontier(open_shas=frontier.open, known_shas=frontier.known, is_anchored=frontier.is_anchored)
        if frontier.is_closed:
            break
    assert frontier.is_anchored or tip == head
    return met, new


@strategies.composite
def graphs(draw: strategies.DrawFn) -> tuple[Graph, str, str]:
    """A history, an old tip, and a head that leads to it."""
    count = draw(strategies.integers(2, 30))
    luck = random.Random(draw(strategies.integers(0, 10**6)))
    graph: Graph = {"0": []}
    for number in range(1, count):
        size = min(number, luck.choice([0, 1, 1, 1, 2, 2, 3]))
        graph[str(number)] = luck.sample([str(older) for older in range(number)], size)
    head = str(count - 1)
    return graph, luck.choice(sorted(ancestors(graph, head))), head


@given(graphs(), strategies.randoms(use_true_random=False))
def test_frontier_closes_only_when_everything_new_was_met(frame: tuple[Graph, str, str], luck: random.Random) -> None:
    graph, tip, head = frame
    order = sorted(ancestors(graph, head))
    luck.shuffle(order)

    met, new = walked(graph, order, tip, head)

    wanted = ancestors(graph, head) - ancestors(graph, tip)
    assert wanted <= set(met)
    assert wanted <= set(new)


def test_walk_ends_before_the_old_tip_on_a_straight_line() -> None:
    graph = {str(n): [str(n - 1)] if n else [] for n in range(100)}

    met, new = walked(graph, [str(n) for n in range(99, -1, -1)], tip="96", head="99")

    assert met == new == ["99", "98", "97"]


def test_late_push_with_old_dates_is_met() -> None:
    graph: Graph = {"root": [], "old": ["root"], "tip": ["old"], "late": ["root"], "merge": ["tip", "late"]}

    _, new = walked(graph, ["merge", "tip", "old", "late", "root"], tip="tip", head="merge")

    assert new == ["merge", "late"]


def test_hidden_parents_are_never_proven_to_be_old() -> None:
    frontier = Frontier.between("tip", "head")

    frontier.meet("head", ["tip", github_commits.HIDDEN_PARENTS])
    frontier.meet("tip", [github_commits.HIDDEN_PARENTS])

    assert not frontier.is_closed


def test_tip_that_the_history_does_not_hold_is_told() -> None:
    frontier = Frontier.between("lost", "head")

    for sha, parents in (("head", ["middle"]), ("middle", ["root"]), ("root", [])):
        frontier.meet(sha, parents)

    assert frontier.is_closed
    assert not frontier.is_anchored
