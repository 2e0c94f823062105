from datetime import UTC, datetime, timedelta, timezone

import pytest

from worker_app.reports import markdown


def test_table_stays_a_table_whatever_a_cell_holds() -> None:
    lines = markdown.table(("A", "B"), [("a|b", "c\nd"), ("`x` | `y`", "\r\n| --- |")]).splitlines()
    assert len(lines) == 4
    for line in lines:
        assert line.replace("\\|", "").count("|") == 3


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a|b", r"a\|b"),
        ("a\\|b", r"a\\\|b"),
        ("a\n\n# b", r"a \# b"),
        ("`rm`", r"\`rm\`"),
        ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
        ("&lt;", "&amp;lt;"),
        ("[x](javascript:1)", r"\[x\](javascript:1)"),
        ("![x](http://h/p.png)", r"!\[x\](http://h/p.png)"),
        ("*a* _b_ ~~c~~", r"\*a\* \_b\_ \~\~c\~\~"),
        ("\x1b[31mred\x00\u202e\u2028x", r"\[31mred x"),
        ("  ", markdown.NO_DATA),
        (None, markdown.NO_DATA),
        ("Müller 日本 🚀", "Müller 日本 🚀"),
        (0, "0"),
        (True, "yes"),
    ],
)
def test_cell_is_text_and_nothing_else(given: object, shown: str) -> None:
    assert markdown.cell(given) == shown


def test_long_text_is_cut_before_it_is_escaped() -> None:
    shown = markdown.cell("|" * 5000)
    assert len(shown) == 2 * markdown.CELL_LENGTH - 1
    assert shown.endswith("|…")


def test_table_without_rows_is_its_sentence() -> None:
    assert markdown.table(("A",), [], empty="nothing here") == "nothing here"


def test_time_is_utc_with_z() -> None:
    at = datetime(2026, 6, 1, 14, 0, 5, 999, tzinfo=timezone(timedelta(hours=2)))
    assert markdown.cell(at) == "2026-06-01 12:00:05Z"
    assert markdown.cell(datetime(2026, 6, 1, tzinfo=UTC)) == "2026-06-01 00:00:00Z"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
        (None, "no data"),
    ],
)
def test_age_has_two_units(seconds: float | None, shown: str) -> None:
    assert markdown.age(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.94999, "94.9%"),
        (0.95, "95%"),
        (1.0, "100%"),
        (0.9999, "99.9%"),
        (0.0, "0%"),
        (0.29, "29%"),
        (None, "no data"),
    ],
)
def test_share_never_rounds_up_to_what_was_not_reached(value: float | None, shown: str) -> None:
    assert markdown.share(value) == shown
