from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker_app.providers import http_reply

URL = "https://api.github.com/repos/a/b/issues?page=1"
NEXT = "https://api.github.com/repositories/42/issues?after=Y3Vyc29yOnYyOpK5%3D%3D&page=2"


def test_integers_keep_their_digits() -> None:
    assert http_reply.document(b'{"id": 18446744073709551617}') == {"id": 18446744073709551617}


def test_a_lone_surrogate_and_a_nul_are_read() -> None:
    assert http_reply.document(b'"a\\u0000\\ud83d"') == "a\x00\ud83d"


@given(st.binary(max_size=200))
def test_whatever_the_bytes_are_only_a_value_error_is_raised(body: bytes) -> None:
    try:
        http_reply.document(body)
    except ValueError:
        return


@pytest.mark.parametrize("body", [b"", b"NaN", b"[Infinity]", b"<html>", b"{'a': 1}", b"[1,]", b"[" * 100_000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        http_reply.document(body)


@pytest.mark.parametrize(
    "said",
    ["Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:28:00 -0000", "Wed, 21 Oct 2026 09:28:00 +0200"],
)
def test_a_date_is_aware_utc(said: str) -> None:
    date = http_reply.date({"Date": said})
    assert date == datetime(2026, 10, 21, 7, 28, tzinfo=UTC)
    assert date.tzinfo is UTC


@pytest.mark.parametrize(
    "headers", [{}, {"Date": ""}, {"Date": "yesterday"}, {"Date": "Wed, 32 Oct 2026 07:28:00 GMT"}]
)
def test_a_date_that_is_none_is_none(headers: dict[str, str]) -> None:
    assert http_reply.date(headers) is None


@pytest.mark.parametrize(
    "link",
    [
        f'<{NEXT}>; rel="next"',
        f'<https://x/1>; rel="prev", <{NEXT}>; rel="next", <https://x/9>; rel="last"',
        f"<{NEXT}>; rel=next",
        f'<{NEXT}>; rel="last next"',
        f'<{NEXT}>; title="a"; rel="Next"',
    ],
)
def test_the_next_page_is_taken_letter_for_letter(link: str) -> None:
    assert http_reply.next_url(URL, {"Link": link}) == NEXT


@pytest.mark.parametrize(
    "link", ["", '<https://x/1>; rel="prev"', "<https://x/1>", "rubbish", ";,<>;,=", '<x>; rel="nextish"']
)
def test_the_last_page_has_no_next(link: str) -> None:
    assert http_reply.next_url(URL, {"Link": link}) is None


def test_a_relative_next_page_is_joined() -> None:
    assert (
        http_reply.next_url(URL, {"Link": '<?page=2>; rel="next"'}) == "https://api.github.com/repos/a/b/issues?page=2"
    )


@pytest.mark.parametrize(
    ("body", "kind", "quote"),
    [
        (b"<html>\n Retry \x00later", "text/html", "(text/html, 20 bytes) <html> Retry later"),
        (b"words " * 100, "text/plain", f"(text/plain, 600 bytes) {'words ' * 20}".rstrip()),
        (b"for Bearer\tghp_abcdef.", "text/plain", "(text/plain, 22 bytes) for ***\u0020***."),
        (b"hello hello1", "text/hello1", "(text/***, 12 bytes) hello ***"),
        (b"a ghs_0123456789abcdefABCDEF", "", "(, 28 bytes) a …"),
        (b' {"token": "x"', "text/html", "(text/html, 14 bytes)"),
        (b"x", "Application/JSON", "(application/json, 1 bytes)"),
        (b"\xff\xfe", "a\x00b", "(a b, 2 bytes) \ufffd\ufffd"),
    ],
)
def test_a_quote_is_one_short_line_without_secrets(body: bytes, kind: str, quote: str) -> None:
    secrets = ["Bearer ghp_abcdef", "hello1", "v1", ""]
    assert http_reply.quoted(body, {"Content-Type": kind}, secrets) == quote


def test_a_secret_that_is_the_beginning_of_another_leaves_no_rest() -> None:
    said = http_reply.quoted(b"abcdefghij abcdefg", {}, ["abcdefg", "abcdefghij"])
    assert said == "(no type, 18 bytes) *** ***"
