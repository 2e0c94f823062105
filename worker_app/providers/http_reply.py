"""Replies: how dates, links and JSON are read, and how much of a reply a message may quote. Pure.

Pages: https://www.rfc-editor.org/rfc/rfc8288 (Link), https://www.rfc-editor.org/rfc/rfc9110#name-date-time-formats
"""

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn

from requests.utils import parse_header_links

from worker_app.gate import replies
from worker_app.providers import http_address

READ_BYTES = 1_000  # of a page that are looked at for a quote
LEAST_SECRET = 6  # characters; a shorter word of a header is no secret, and "token" would be cut from every message


def document(body: bytes) -> Any:
    """The parsed JSON; ValueError for what is none, NaN and bottomless nesting too. Integers keep all their digits."""
    try:
        return json.loads(body, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def date(headers: Mapping[str, str]) -> datetime | None:
    """When the provider answered, by its own clock, aware UTC; None where it does not say."""
    try:
        said = parsedate_to_datetime(headers["Date"])
    except (KeyError, ValueError, OverflowError):
        return None
    return said.replace(tzinfo=UTC) if said.tzinfo is None else said.astimezone(UTC)


def next_url(url: str, headers: Mapping[str, str]) -> str | None:
    """Where the next page is, letter for letter as the provider wrote it; None on the last."""
    for link in parse_header_links(headers.get("Link", "")):
        if "next" in link.get("rel", "").lower().split():
            return http_address.joined(url, link["url"])
    return None


def quoted(body: bytes, headers: Mapping[str, str], secrets: Iterable[str]) -> str:
    """What a message may say of a body that is no JSON though JSON is due: its type, and how a page for people begins.

    What began as JSON is not quoted: it may be the half of a token or of somebody's text.
    """
    kind = headers.get("Content-Type", "no type").lower()
    is_page = "json" not in kind and not body.lstrip().startswith((b"{", b"[", b'"'))
    begins = body[:READ_BYTES].decode(errors="replace") if is_page else ""
    told = f"{kind}, {len(body)} bytes"
    return " ".join(filter(None, (f"({_masked(told, secrets)})", _masked(begins, secrets))))


def _masked(text: str, secrets: Iterable[str]) -> str:
    """The text in one short line, without the words of `secrets` and without whatever else may be a token."""
    for secret in sorted({word for value in secrets for word in value.split()}, key=len, reverse=True):
        if len(secret) >= LEAST_SECRET:
            text = text.replace(secret, "***")
    return replies.provider_word(text).strip()
