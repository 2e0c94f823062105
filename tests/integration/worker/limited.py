"""A stage for limits: a fake GitHub in the test, organisations with credentials for it, and real workers that read it."""

import json
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import text

from tests import waiting
from tests.processes import Service, wait_for
from tests.seed import Seed
from worker_app import key_ring
from worker_app.credentials import adding
from worker_app.credentials.kinds import GitHubToken
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.log import Entry
from worker_app.secret import Secret
from worker_app.store import sources
from worker_app.store.postgres import Postgres
from worker_app.vault import RingKeys, Vault

HOST, QUEUE = "github.localhost", "sync.github"
IMPATIENT = (sys.executable, "-m", "celery", "--app", "tests.integration.worker.impatient")
TOP = Path(__file__).resolve().parents[3]
RUNTIME = re.compile(r"succeeded in ([\d.]+)s")
END_SECONDS = 25.0  # in which what a test waits for happens


@dataclass(frozen=True, slots=True)
class Stage:
    """What one test works with."""

    service: Service
    postgres: Postgres
    fake: FakeGitHub
    keys: str = field(default_factory=key_ring.generate)

    def org(self, name: str, token: str, names: Collection[str] | None = None) -> list[Seed]:
        """An organisation with these repositories of the fake (None: all) as sources, read with that token."""
        sealer = Vault(RingKeys(key_ring.parse(self.keys)))
        with self.postgres.transaction() as tx:
            org = sources.add_org(tx, name, "UTC")
            given = GitHubToken(HOST, Secret(token))
            chosen = adding.add(tx, sealer, given, org_id=org.id, name="fake", created_by="a test")
            made = []
            for repository in self.fake.world.repositories.values():
                if names is not None and repository.full_name not in names:
                    continue
                source = sources.add_source(tx, org.id, "github", HOST, repository.full_name, str(repository.id))
                made.append(Seed(org, sources.set_credential(tx, source, chosen.id)))
        return made

    def queue(self, made: Sequence[Seed], *datasets: str, queue: str = QUEUE) -> list[UUID]:
        """One queued batch for each source and dataset; a worker's relay sends their messages."""
        return [found for one in made for found in waiting.queued(self.postgres, one, *datasets, queue=queue)]

    @contextmanager
    def worker(self, name: str, pool: str = "gevent", slots: int = 4, **changes: str) -> Iterator["Worker"]:
        """A worker that takes work."""
        environment = {
            "PROVIDER_API_URLS": f"{HOST}={self.fake.url}",
            "CREDENTIAL_KEYS": self.keys,
            "LOG_FORMAT": "json",
            "PYTHONPATH": str(TOP),
            "CELERY_POOL": pool,
            "CELERY_CONCURRENCY": str(slots),
            "SYNC_CONCURRENCY_PER_PROVIDER": "100",
            **changes,
        }
        arguments = ["worker", "--pool", pool, "--concurrency", str(slots), "--hostname", f"{name}@%h"]
        arguments += ["--queues", changes.get("CELERY_QUEUES", QUEUE), "--without-gossip", "--without-mingle"]
        with self.service.running(name, *arguments, **environment) as process:
            self.service.wait_ready(name, process)
            yield Worker(name, process, self.service)

    def rows(self, ids: Collection[UUID]) -> list[dict[str, Any]]:
        """The rows of batches, in the order of their ids in `ids`."""
        with self.postgres.transaction() as tx:
            found = tx.execute(
                text("SELECT to_jsonb(b) FROM sync_batches b WHERE id = ANY(:ids) ORDER BY array_position(:ids, id)"),
                {"ids": list(ids)},
            )
            return list(found.scalars())

    def states(self, ids: Collection[UUID]) -> set[str]:
        """The states that batches are in."""
        return {row["state"] for row in self.rows(ids)}

    def wait_for_states(self, ids: Collection[UUID], state: str) -> None:
        """Wait until every batch is in that state."""
        wait_for(lambda: self.states(ids) == {state}, f"{len(ids)} batches are {state}", END_SECONDS)

    def entries(self, credential: str, path: str = "") -> list[Entry]:
        """The requests of a credential whose path holds `path`, in the order in which they arrived."""
        found = (item for item in self.fake.log.entries() if item.credential == credential and path in item.path)
        return sorted(found, key=lambda item: item.arrived_at)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker process, and what it has written."""

    name: str
    process: "subprocess.Popen[bytes]"
    service: Service

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Its events."""
        return [json.loads(line) for line in self.service.log(self.name).splitlines() if line.startswith("{")]

    def ends(self, batch_id: UUID) -> list[str | None]:
        """How the executions of a batch ended, in their order; None: a second message that did nothing."""
        return [
            line["result"] for line in self.lines if line["event"] == "step.ended" and line["batch_id"] == str(batch_id)
        ]

    def held_seconds(self, ids: Collection[UUID]) -> list[float]:
        """How long each execution of these batches held its slot."""
        names = {str(batch_id) for batch_id in ids}
        events = [line["event"] for line in self.lines if line.get("batch_id") in names]
        return [float(found[1]) for event in events if (found := RUNTIME.search(event))]
