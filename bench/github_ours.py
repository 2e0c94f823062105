"""Our side of the GitHub benchmark: the real service syncs the pull requests of a world, as a schedule would have it.

A slot of a schedule becomes a run, the run a batch for each repository, and a worker of twenty gevent slots does them: relay,
queue, gate, vault and durable Postgres are those of production. Each measurement has an organisation of its own.
"""

import contextlib
from collections.abc import Sequence
from itertools import count
from uuid import UUID

import psutil
from sqlalchemy import text

from bench.github_figures import Taken
from bench.github_server import Server
from bench.service import BenchError, Service
from tests import seed
from worker_app import errors, jobs
from worker_app.credentials import adding
from worker_app.credentials.kinds import GitHubToken
from worker_app.key_ring import KeyRing
from worker_app.providers import registry
from worker_app.records import Source
from worker_app.secret import Secret
from worker_app.store import schedules, sources
from worker_app.store.postgres import Postgres, Transaction
from worker_app.store.sources import Org
from worker_app.sync import dispatch
from worker_app.vault import RingKeys, Vault

SLOTS = 20
DATASET = "pull_requests"
NAMES = count(1)  # of organisations


class Ours:
    """The service, and the key that seals the token of the server."""

    def __init__(self, service: Service, ring: KeyRing) -> None:
        self._service = service
        self._vault = Vault(RingKeys(ring))

    @property
    def postgres(self) -> Postgres:
        """The service's database."""
        return self._service.postgres

    def new_org(self, server: Server) -> Org:
        """An organisation with every repository of a server as a source, of which nothing but pull requests is read."""
        names = {name: found["repository"]["ext_id"] for name, found in server.truth().items()}
        token = GitHubToken(server.world.host, Secret(server.token))
        with self.postgres.transaction() as tx:
            org = sources.add_org(tx, f"bench-{next(NAMES)}", "UTC")
            chosen = adding.add(tx, self._vault, token, org_id=org.id, name="bench", created_by="bench")
            for name, ext_id in names.items():
                source = sources.add_source(tx, org.id, "github", server.world.host, name, ext_id)
                _only_pull_requests(tx, sources.set_credential(tx, source, chosen.id))
        return org

    def sync(self, server: Server, org: Org) -> Taken:
        """Serve one slot of a schedule of all sources and wait until its run and the metrics are done. Raises BenchError."""
        before, asked = self._cpu_seconds(server), len(server.log())
        run = self._service.closed(self._minted(org))
        after, requests = self._cpu_seconds(server), len(server.log()) - asked
        self._service.closed(jobs.metrics_run_id(run.id))
        if run.state != jobs.RunState.SUCCEEDED or run.started_at is None or run.finished_at is None:
            raise BenchError(f"the run of {org.name} is {run.state}: {run.error}")
        seconds = (run.finished_at - run.started_at).total_seconds()
        cpu = [round(end - start, 3) for start, end in zip(before, after, strict=True)]
        return Taken(
            pull_requests=server.world.total,
            seconds=round(seconds, 3),
            requests=requests,
            slots=min(SLOTS, server.world.repositories),
            records=run.records,
            given_back=self._given_back(run.id),
            cpu_seconds=cpu[0],
            postgres_cpu_seconds=cpu[1],
            server_cpu_seconds=cpu[2],
        )

    def _given_back(self, run_id: UUID) -> int:
        """How often a batch of the run gave its slot back before its end: each wake beside its first says so."""
        statement = "SELECT CAST(sum(wakes - 1) AS integer) FROM sync_batches WHERE run_id = :id"
        (found,) = seed.column(self.postgres, statement, id=run_id)
        assert isinstance(found, int)
        return found

    def _minted(self, org: Org) -> UUID:
        """A run, minted by a tick; its schedule is removed, so that the next tick does not serve it again."""
        with self.postgres.transaction() as tx:
            first = sources.sources(tx, org.id)[0]
        job_id = seed.schedule(self.postgres, seed.Seed(org, first), provider="github", source_ids=())
        dispatch.tick(self.postgres, "bench")
        found = seed.column(self.postgres, "SELECT id FROM sync_runs WHERE job_id = :id", id=job_id)
        with self.postgres.transaction() as tx:
            schedules.remove(tx, job_id)
        if len(found) != 1:
            raise errors.UsageError(f"the tick minted {len(found)} runs, not one")
        return UUID(str(found[0]))

    def _cpu_seconds(self, server: Server) -> Sequence[float]:
        """What worker, Postgres and server have computed so far."""
        return self._service.cpu_seconds(), self._postgres_cpu_seconds(), server.cpu_seconds()

    def _postgres_cpu_seconds(self) -> float:
        """Of all its processes; one that has ended counts for the one that waited for it."""
        with self.postgres.transaction() as tx:
            backend = psutil.Process(tx.execute(text("SELECT pg_backend_pid()")).scalar_one())
        postmaster = backend.parent()
        assert postmaster is not None
        own, living = postmaster.cpu_times(), 0.0
        for process in (postmaster, *postmaster.children()):
            with contextlib.suppress(psutil.NoSuchProcess):
                living += sum(process.cpu_times()[:2])
        return float(living + own.children_user + own.children_system)


def _only_pull_requests(tx: Transaction, source: Source) -> None:
    """Say that the other datasets are switched off there, so that no batch asks for them."""
    for dataset in registry.datasets("github"):
        if dataset != DATASET:
            sources.disable_dataset(tx, source.org_id, source.id, dataset, "the benchmark reads pull requests alone")
