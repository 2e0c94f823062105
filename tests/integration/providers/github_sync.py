"""Syncs one repository of the fake GitHub into tables in memory, page by page, by the rules that batches and the store obey.

A walk is stored as JSON between any two pages, and so is its position; `kill` says after which pages another process goes on.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.gates import RecordingGate
from tests.github_answers import NOW
from worker_app import records
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.things import Repository
from worker_app.gate.key import GateKey
from worker_app.gate.policies import POLICIES
from worker_app.providers import github, github_address
from worker_app.providers.client import Client
from worker_app.providers.http_cache import Cache
from worker_app.providers.http_session import Session
from worker_app.sync import batch

HOST = "github.localhost"
Key = tuple[object, ...]


class Token:
    """Signs with one token."""

    generation = "1"

    def __init__(self, token: str) -> None:
        self._token = token

    def headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._token}"}

    def renew(self) -> bool:
        return False


@dataclass(frozen=True)
class Hosted:
    """The fake with what a process needs to ask it."""

    fake: FakeGitHub
    session: Session
    gate: RecordingGate = field(default_factory=RecordingGate)
    cache: Cache = field(default_factory=Cache)

    def client(self) -> Client:
        """The client of one batch."""
        return Client(
            self.fake.url,
            key=GateKey("github", "org-1", HOST),
            policy=replace(POLICIES["github"], request_deadline=20.0),
            gate=self.gate,
            signer=Token(self.fake.token),
            session=self.session,
            cache=self.cache,
            headers=github.CLIENT_HEADERS,
        )

    def reader(self, dataset: str, page_size: int = 100) -> github.GitHubReader:
        """The reader of one batch."""
        api = github_address.api(HOST, {HOST: self.fake.url})
        return github.GitHubReader(self.client(), api, dataset, page_size=page_size)

    def repository(self, full_name: str = "acme/api") -> Repository:
        """What the world holds of a repository."""
        found = self.fake.world.named(full_name)
        assert found is not None
        return found

    def source(self, full_name: str = "acme/api", state: str = "active") -> records.Source:
        """The source that is this repository."""
        ext_id = str(self.repository(full_name).id)
        return records.Source(UUID(int=7), UUID(int=1), "github", HOST, full_name, ext_id, state)

    def asked(self, endpoint: str = "") -> list[str]:
        """The paths that were asked for, with their queries; those whose endpoint holds `endpoint`."""
        return [entry.path for entry in self.fake.log.entries() if endpoint in entry.endpoint]


@contextmanager
def hosting(fake: FakeGitHub) -> Iterator[Hosted]:
    """Start the fake, and what asks it."""
    with fake, closing(Session()) as session:
        yield Hosted(fake, session)


@dataclass
class Tables:
    """What was read of one dataset of one source."""

    hosted: Hosted
    dataset: str
    source: records.Source
    page_size: int = 100
    rows: dict[Key, Any] = field(default_factory=dict)
    stamps: dict[str, datetime] = field(default_factory=dict)  # commits: the walk that met them last
    unreachable: set[str] = field(default_factory=set)
    cursor: records.Cursor = field(default_factory=records.Cursor)
    pages: list[records.Page] = field(default_factory=list)  # of the last run
    replaced_bytes: int = 0

    def run(self, kill: Callable[[], bool] = lambda: False) -> bool:
        """One run; returns whether it was complete."""
        walk, position = self._stored(self._reader().begin(self.source, self.cursor, NOW)), None
        self.pages = []
        while True:
            position = self._read(walk, position, kill)
            if position is None:
                break
        is_complete = walk.incomplete_reason is None and all(page.complete for page in self.pages)
        if is_complete:
            self._end(walk)
        return is_complete

    def begin(self) -> records.Walk:
        """The frame that the next walk would have."""
        return self._reader().begin(self.source, self.cursor, NOW)

    def of(self, kind: type[Any]) -> dict[Key, Any]:
        """The records of one type by their keys."""
        return {key[1:]: row for key, row in self.rows.items() if key[0] == kind.__name__}

    @property
    def reasons(self) -> list[str]:
        """Why pages of the last run were cut."""
        return [page.reason or "" for page in self.pages if not page.complete]

    def _reader(self) -> github.GitHubReader:
        return self.hosted.reader(self.dataset, self.page_size)

    def _stored(self, walk: records.Walk) -> records.Walk:
        return batch.walk_from(json.loads(json.dumps(batch.walk_document(walk))))

    def _read(self, walk: records.Walk, position: str | None, kill: Callable[[], bool]) -> str | None:
        with closing(self._reader().read(self.source, walk, position)) as pages:
            for page in pages:
                self._write(page, walk)
                if page.next is None:
                    return None
                if kill():
                    return page.next
        raise AssertionError("the reader ended without a last page")

    def _write(self, page: records.Page, walk: records.Walk) -> None:
        self.pages.append(page)
        self.replaced_bytes += page.replaced_bytes
        keys = [key_of(record) for record in page.records]
        assert len(keys) == len(set(keys)), "a page holds a key twice"
        for key, record in zip(keys, page.records, strict=True):
            held = self.rows.get(key)
            if held is None or _age(record, walk) >= _age(held, walk):
                self.rows[key] = record
            if isinstance(record, records.Commit):
                self.stamps[record.ext_id] = walk.started_at
                self.unreachable.discard(record.ext_id)

    def _end(self, walk: records.Walk) -> None:
        assert self.cursor.cursor_at is None or walk.started_at >= self.cursor.cursor_at
        self.cursor = records.Cursor(walk.started_at, dict(walk.until))
        if walk.is_full:
            self.unreachable |= {sha for sha, stamp in self.stamps.items() if stamp < walk.started_at}


def key_of(record: records.Record) -> Key:
    """The key of a record in its table."""
    kind = type(record).__name__
    match record:
        case records.PullRequestCommit():
            return kind, record.pr_ext_id, record.ext_id
        case records.Transition():
            return kind, record.item_ext_id, record.ext_id
        case records.Review():
            return kind, record.kind, record.ext_id
        case records.PipelineRun():
            return kind, record.ext_id, record.attempt
        case _:
            return kind, record.ext_id


def _age(record: Any, walk: records.Walk) -> datetime:
    found: datetime = getattr(record, "updated_at", walk.started_at)
    return found
