"""Paging: a long list in pages, each with the address of the next in its `Link` header. The answer stays a plain list.

A cursor is opaque: the last row of a page, by which the next one begins. What was added since comes into no page behind it.
Page: https://www.rfc-editor.org/rfc/rfc8288
"""

import base64
import binascii
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol
from urllib.parse import urlencode
from uuid import UUID

from flask import Response, jsonify, request

from worker_app import errors
from worker_app.cli.output import document
from worker_app.store.pages import Mark

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FORM = struct.Struct(">q16s")  # microseconds since the epoch, id


class Row(Protocol):
    """What a list is sorted by."""

    @property
    def id(self) -> UUID:
        """Its own."""

    @property
    def created_at(self) -> datetime:
        """Aware UTC."""


def mark(cursor: str | None) -> Mark | None:
    """The row that a cursor stands for. Raises UsageError for one that was not given out."""
    if cursor is None:
        return None
    try:
        micros, row_id = FORM.unpack(base64.b64decode(cursor.encode("ascii"), altchars=b"-_", validate=True))
        return Mark(EPOCH + micros * MICROSECOND, UUID(bytes=row_id))
    except (struct.error, binascii.Error, ValueError, OverflowError):
        raise errors.UsageError(
            f"cursor is {cursor[:100]!r}: take it from the Link header of the page before"
        ) from None


def page(rows: Sequence[Row], limit: int) -> Response:
    """The first `limit` of the rows, and where there are more the way to them."""
    answer = jsonify(document(list(rows[:limit])))
    if len(rows) > limit:
        following = urlencode({**request.args, "cursor": cursor_of(rows[limit - 1])})
        answer.headers["Link"] = f'<{request.path}?{following}>; rel="next"'
    return answer


def cursor_of(row: Row) -> str:
    """The cursor behind a row."""
    micros = (row.created_at - EPOCH) // MICROSECOND
    return base64.urlsafe_b64encode(FORM.pack(micros, row.id.bytes)).decode("ascii")
