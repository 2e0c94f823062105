import json
from datetime import UTC, datetime

import pytest

from worker_app import records
from worker_app.providers import github_position

AT = datetime(2026, 3, 10, 12, 0, 0, 999_999, tzinfo=UTC)


def test_position_comes_back_as_it_was() -> None:
    text = github_position.packed(after="Y3Vyc29yOnYyOpK5", found=7, known=[])

    assert github_position.unpacked(text) == {"after": "Y3Vyc29yOnYyOpK5", "found": 7, "known": []}
    assert " " not in text
    assert json.loads(text)


def test_walk_starts_without_a_position() -> None:
    assert github_position.unpacked(None) == {}
    assert github_position.next_url(None) is None


@pytest.mark.parametrize("url", ["https://api.github.com/repositories/42/issues?after=Y3&page=2", None])
def test_url_of_the_next_page_is_kept_verbatim(url: str | None) -> None:
    position = github_position.before(url, shown=100)

    assert position is None if url is None else github_position.next_url(position) == url


def test_frame_holds_the_overlap_in_whole_seconds() -> None:
    cursor = records.Cursor(cursor_at=AT)

    assert github_position.changed_since(cursor) == {"updated_at": "2026-03-10T11:55:00Z"}
    assert github_position.created_since(cursor) == {
        "created_at": "2026-03-07T11:55:00Z",
        "updated_at": "2026-03-10T11:55:00Z",
    }


def test_first_walk_reads_everything() -> None:
    assert github_position.changed_since(records.Cursor()) == {}
    assert github_position.created_since(records.Cursor()) == {}
    assert github_position.is_since("2020-01-01T00:00:00Z", None)


@pytest.mark.parametrize(
    ("at", "expected"),
    [("2026-03-10T11:55:00Z", True), ("2026-03-10T11:54:59Z", False), ("2026-03-10T12:55:00+01:00", True)],
)
def test_f27_beginning_of_a_frame_belongs_to_it(at: str, expected: bool) -> None:
    assert github_position.is_since(at, "2026-03-10T11:55:00Z") is expected


def test_parameters_of_a_list_by_change_are_named_as_github_names_them() -> None:
    walk = records.Walk(AT, since={"updated_at": "2026-03-10T11:55:00Z"})

    assert github_position.changed(walk, 100) == {
        "sort": "updated", "direction": "desc", "per_page": "100", "since": "2026-03-10T11:55:00Z",
    }  # fmt: skip
    assert "since" not in github_position.changed(records.Walk(AT), 100)
