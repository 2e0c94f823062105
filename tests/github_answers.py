"""Answers of GitHub as the client hands them on, for tests of what judges and maps them."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from requests.structures import CaseInsensitiveDict

from worker_app import records
from worker_app.providers.client import Answer

ORG = UUID(int=7)
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
SOURCE = records.Source(ORG, UUID(int=1), "github", "github.com", "acme/api", "42")


def answer(status: int = 200, document: Any = None, **headers: str) -> Answer:
    """An answer; underscores in header names become hyphens."""
    body = b"" if document is None else json.dumps(document).encode()
    named = CaseInsensitiveDict({name.replace("_", "-"): value for name, value in headers.items()})
    return Answer(status, named, body, document, "https://api.github.com/", NOW, None)
