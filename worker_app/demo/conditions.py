"""Conditional requests: an ETag that is bound to the token, Last-Modified where a single thing was asked for, and 304.

https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api#use-conditional-requests-if-appropriate
"""

import hashlib
import json
from datetime import datetime
from email.utils import format_datetime, parsedate_to_datetime

from worker_app.demo.credentials import Credential
from worker_app.demo.messages import Request, Response


def apply(request: Request, response: Response, credential: Credential | None) -> Response:
    """The response with its validators and its body; a 304 without one where the client has it already."""
    body = encode(response).body or b""
    if request.method != "GET" or response.status != 200:
        return response
    token = credential.token if credential else ""
    digest = hashlib.sha256(token.encode() + body).hexdigest()
    validators = {"etag": f'W/"{digest}"', "cache-control": "private, max-age=60, s-maxage=60"}
    if response.last_modified:
        validators["last-modified"] = format_datetime(response.last_modified, usegmt=True)
    response.headers |= validators
    if not _is_known(request, validators["etag"], response.last_modified):
        return response
    return Response(304, headers=response.headers, body=b"", template=response.template)


def encode(response: Response) -> Response:
    """The same response with the body that its document makes, in ASCII, so that half of a surrogate pair passes."""
    if response.body is None:
        response.body = json.dumps(response.document, separators=(",", ":")).encode()
    return response


def _is_known(request: Request, etag: str, last_modified: datetime | None) -> bool:
    """Whether the client holds this answer. If-None-Match alone decides where it is sent (RFC 9110, section 13.1.3)."""
    if (known := request.headers.get("if-none-match")) is not None:
        return etag.removeprefix("W/") in {tag.strip().removeprefix("W/") for tag in known.split(",")}
    since = request.headers.get("if-modified-since")
    try:
        return bool(since and last_modified and last_modified <= parsedate_to_datetime(since))
    except ValueError:
        return False
