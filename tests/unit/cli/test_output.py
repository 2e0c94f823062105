import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID

import pytest

from worker_app.cli import output


@dataclass(frozen=True, slots=True)
class Thing:
    id: UUID
    at: datetime | None
    days: tuple[date, ...]


def test_document_holds_ids_as_text_and_times_in_utc_with_z() -> None:
    thing = Thing(UUID(int=1), datetime(2026, 6, 1, 14, tzinfo=timezone(timedelta(hours=2))), (date(2026, 6, 1),))
    assert output.document([thing]) == [
        {"id": "00000000-0000-0000-0000-000000000001", "at": "2026-06-01T12:00:00.000Z", "days": ["2026-06-01"]}
    ]


def test_emit_prints_one_document_and_nothing_else(capsys) -> None:  # type: ignore[no-untyped-def]
    output.emit({"a": None}, as_json=True, show=output.sentence("never"))
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"a": None}
    assert printed.err == ""


def test_text_that_looks_like_markup_is_printed_as_it_is(capsys) -> None:  # type: ignore[no-untyped-def]
    output.emit([], as_json=False, show=output.table("A", rows=[("[bold]x[/bold]",)], empty=""))
    assert "[bold]x[/bold]" in capsys.readouterr().out


def test_cells_are_what_a_person_reads() -> None:
    assert output.cell(None) == "-"
    assert output.cell(True) == "yes"
    assert output.cell(2.0) == "2"
    assert output.cell(("a", "b")) == "a, b"
    assert output.cell(datetime(2026, 6, 1, 12, tzinfo=UTC)) == "2026-06-01 12:00:00Z"


def test_watch_draws_again_until_it_is_interrupted_and_a_document_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "WATCH_SECONDS", 0)
    looks = iter((1, 2))

    def read() -> int:
        if (found := next(looks, None)) is None:
            raise KeyboardInterrupt
        return found

    with pytest.raises(KeyboardInterrupt):
        output.watch(read, lambda seen, console: console.print(f"look {seen}"), is_watched=True, as_json=False)
    assert capsys.readouterr().out.split("\n")[:2] == ["look 1", "look 2"]
    output.watch(lambda: [3], lambda *_: None, is_watched=True, as_json=True)
    assert json.loads(capsys.readouterr().out) == [3]
