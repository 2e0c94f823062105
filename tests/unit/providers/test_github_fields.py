import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from worker_app import records
from worker_app.providers import github_fields
from worker_app.providers.github_fields import NOBODY, Account

AT = datetime(2026, 3, 1, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("user", "account"),
    [
        ({"login": "ada", "node_id": "U_1", "type": "User"}, Account("U_1", False)),
        ({"login": "deploy[bot]", "node_id": "BOT_1", "type": "Bot"}, Account("BOT_1", True)),
        ({"login": "ghost", "node_id": "MDQ6VXNlcjEwMTM3", "type": "User"}, NOBODY),
        (None, NOBODY),
    ],
)
def test_rest_account_is_nobody_for_ghost_and_null(user: dict[str, Any] | None, account: Account) -> None:
    assert github_fields.rest_account(user) == account


@pytest.mark.parametrize(
    ("actor", "account"),
    [
        ({"__typename": "User", "login": "ada", "id": "U_1"}, Account("U_1", False)),
        ({"__typename": "Bot", "login": "deploy", "id": "BOT_1"}, Account("BOT_1", True)),
        ({"__typename": "Mannequin", "login": "ida", "id": "M_1"}, Account("M_1", False)),
        ({"__typename": "User", "login": "ghost", "id": "MDQ6VXNlcjEwMTM3"}, NOBODY),
        (None, NOBODY),
    ],
)
def test_graphql_account_is_nobody_for_null(actor: dict[str, Any] | None, account: Account) -> None:
    assert github_fields.graphql_account(actor) == account


def test_within_stops_at_the_first_null() -> None:
    assert github_fields.within({"a": {"b": None}}, "a", "b", "c") is None
    assert github_fields.within({"a": {"b": {"c": 1}}}, "a", "b", "c") == 1
    assert github_fields.within(None, "a") is None


@pytest.mark.parametrize("text", ["2026-03-01T00:30:00Z", "2026-03-01T01:30:00+01:00", "2026-02-28T16:30:00.000-0800"])
def test_moment_is_aware_utc(text: str) -> None:
    assert github_fields.moment(text) == AT
    assert github_fields.moment(text).tzinfo is UTC


@pytest.mark.parametrize(
    ("document", "expected", "count"),
    [
        ({"body": "a\u0000b \ud83d"}, {"body": "ab �"}, 1),
        ([{"t": "\udc00"}, {"t": "ok"}, "\u0000\u0000"], [{"t": "�"}, {"t": "ok"}, ""], 2),
        ({"t": "fix 🚀"}, {"t": "fix 🚀"}, 0),
        ({"n": 2**53 + 1, "t": "\u0000"}, {"n": 2**53 + 1, "t": ""}, 1),
        ({"t": r"a literal \u0000"}, {"t": r"a literal \u0000"}, 0),
    ],
)
def test_f42_text_that_no_store_takes_is_replaced_and_counted(document: Any, expected: Any, count: int) -> None:
    body = json.dumps(document).encode()

    assert github_fields.cleaned(body, json.loads(body)) == (expected, count)


def test_clean_document_is_given_back_as_it_is() -> None:
    document = {"body": "quiet"}

    assert github_fields.cleaned(b'{"body": "quiet"}', document)[0] is document


def run(attempt: int, at: datetime, status: str = "queued") -> records.PipelineRun:
    return records.PipelineRun("1", attempt, "42", None, None, None, status, AT, at, None, None)


def test_newer_of_two_records_with_one_key_stays() -> None:
    older, newer = run(1, AT), run(1, AT.replace(hour=1), "running")

    assert github_fields.without_doubles([newer, run(2, AT), older]) == (newer, run(2, AT))


def test_later_of_two_equally_old_records_stays() -> None:
    assert github_fields.without_doubles([run(1, AT), run(1, AT, "running")]) == (run(1, AT, "running"),)


def test_keys_of_children_hold_their_parents() -> None:
    commit = records.PullRequestCommit("sha", "7", 0, None, AT)
    review = records.Review("9", "review", "7", None, None, None, None, None, AT)
    step = records.Transition("E_1", "7", None, "closed", None, "done", None, AT, AT)
    found: list[records.Record] = [
        commit, replace(commit, pr_ext_id="8"), review, replace(review, kind="comment"), step,
        replace(step, item_ext_id="8"),
    ]  # fmt: skip

    assert github_fields.without_doubles(found) == tuple(found)
