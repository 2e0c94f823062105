"""ClickHouse's HTTP protocol, one request at a time: from URL, headers and body to a statement, and back to a reply.

Page: https://clickhouse.com/docs/interfaces/http
"""

import gzip
import json
import re
from collections.abc import Callable
from uuid import uuid4

import lz4.frame
from backports import zstd
from werkzeug import Request, Response

from tests.clickhouse.engine import Answer, Asked, Refused

# Names of the URL that speak to the HTTP side; every other one is a setting of the statement.
RESERVED = re.compile(
    "query|query_id|database|default_format|user|password|quota_key|role|session_id|session_timeout|session_check|stacktrace|"
    "buffer_size|wait_end_of_query|compress|decompress|client_protocol_version|enable_http_compression|param_.*"
)
PACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "lz4": lz4.frame.compress, "zstd": zstd.compress}
UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "lz4": lz4.frame.decompress,
    "zstd": zstd.decompress,
}
INSERT = re.compile(
    rb"\s*INSERT\s+INTO\s+(?P<into>(?:(?!\s(?:SELECT|VALUES)\b)[^;])*?)"
    rb"(?P<settings>\s+SETTINGS\s[^;]*?)?\s+FORMAT\s+(?P<format>\w+)[ \t]*(?:;?\r?\n|;|$)",
    re.IGNORECASE | re.DOTALL,
)
FORMAT = re.compile(r"\sFORMAT\s+(\w+)\s*(?:SETTINGS\s[^;]*)?;?\s*$", re.IGNORECASE)
# Which HTTP status an exception gets; all others are 500.
STATUSES = {
    400: (6, 25, 26, 27, 36, 38, 41, 44, 53, 62, 69, 72, 167, 168, 376, 457),
    403: (192, 193, 194, 516),
    404: (46, 47, 50, 56, 60, 63, 73, 81, 115),
    408: (159,),
    501: (48,),
}


def asked(request: Request) -> Asked:
    """The statement of a request. Raises Refused for what this front does not speak, ValueError for a body out of shape."""
    values = {**request.args.to_dict(), **request.form.to_dict()}
    if "decompress" in values or values.get("compress") == "1":
        raise Refused("Code: 48. DB::Exception: blocks in ClickHouse's own framing. (NOT_IMPLEMENTED)")
    text, rows = _split(_statement(request, values))
    return Asked(
        text=text.decode(),
        rows=rows,
        database=values.get("database") or request.headers.get("X-ClickHouse-Database") or "default",
        default_format=_default_format(request, values),
        parameters={name[6:]: value for name, value in values.items() if name.startswith("param_")},
        settings={name: value for name, value in values.items() if not RESERVED.fullmatch(name)},
        is_read_only=request.method == "GET",
    )


def _statement(request: Request, values: dict[str, str]) -> bytes:
    """The query of the URL or form, and behind it the body: one text, as ClickHouse reads it."""
    given = values.get("query", "").encode()
    body = request.get_data()
    unpack = UNPACK.get(request.headers.get("Content-Encoding", ""), bytes)
    return given + (b"\n" if given and body else b"") + unpack(body)


def _default_format(request: Request, values: dict[str, str]) -> str:
    return values.get("default_format") or request.headers.get("X-ClickHouse-Format") or "TabSeparated"


def _split(statement: bytes) -> tuple[bytes, bytes | None]:
    """The text, and the rows behind the FORMAT of an INSERT; the place where the engine names their file is `{rows}`."""
    found = INSERT.match(statement)
    if found is None:
        return statement, None
    settings = found["settings"] or b""
    return b"INSERT INTO %b {rows}%b FORMAT %b" % (found["into"], settings, found["format"]), statement[found.end() :]


def answered(request: Request, statement: Asked, answer: Answer) -> Response:
    """The reply that carries a result, packed as the client takes it."""
    shown = FORMAT.search(statement.text)
    rows = {"written_rows": answer.rows, "written_bytes": answer.byte_count}
    read = {"read_rows": answer.rows, "read_bytes": answer.byte_count}
    summary = {"written_rows": 0, "written_bytes": 0, "read_rows": 0, "read_bytes": 0, "result_rows": 0}
    summary |= read if statement.rows is None else rows
    reply = Response(answer.body, content_type="text/plain; charset=UTF-8")
    reply.headers["X-ClickHouse-Format"] = shown[1] if shown else statement.default_format
    reply.headers["X-ClickHouse-Summary"] = json.dumps({name: str(count) for name, count in summary.items()})
    return _packed(request, reply)


def refused(request: Request, error: Refused) -> Response:
    """The reply that carries an exception."""
    status = next((status for status, codes in STATUSES.items() if error.code in codes), 500)
    reply = Response(f"{error}\n", status, content_type="text/plain; charset=UTF-8")
    reply.headers["X-ClickHouse-Exception-Code"] = str(error.code)
    return _packed(request, reply)


def signed(request: Request, reply: Response, timezone: str) -> Response:
    """The reply with the headers that every one has."""
    reply.headers["X-ClickHouse-Server-Display-Name"] = "front"
    reply.headers["X-ClickHouse-Query-Id"] = request.args.get("query_id") or str(uuid4())
    reply.headers["X-ClickHouse-Timezone"] = request.args.get("session_timezone") or timezone
    return reply


def _packed(request: Request, reply: Response) -> Response:
    taken = [item.strip() for item in request.headers.get("Accept-Encoding", "").split(",")]
    names = [name for name in taken if name in PACK]
    if names and request.args.get("enable_http_compression") == "1":
        reply.headers["Content-Encoding"] = names[0]
        reply.data = PACK[names[0]](reply.data)
    return reply
