"""Plan: a run becomes batches, one per source and dataset, in one transaction; as many are released as the cap allows."""

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID, uuid4

from worker_app import errors, jobs, queues
from worker_app.jobs import NewBatch, Run, RunState
from worker_app.providers import registry
from worker_app.records import Source
from worker_app.store import runs, sources
from worker_app.store.postgres import Postgres, Transaction
from worker_app.sync import promote


def run(postgres: Postgres, run_id: UUID, *, lease_seconds: int, cap: int, max_batches: int) -> int | None:
    """Plan the run; returns how many messages are owed. None: a duplicate message, a closed or an unknown run."""
    owner = uuid4()
    with postgres.transaction() as tx:
        claimed = runs.claim(tx, run_id, owner, "plan", lease_seconds)
    if claimed is None:
        return None
    provider = claimed.provider or ""
    with postgres.transaction() as tx:
        runs.lock_cap(tx, claimed.org_id, provider)
        try:
            wanted = _wanted_sources(tx, claimed)
            resting = _resting(tx, claimed, wanted)
            batches = plan(claimed, wanted, registry.datasets(provider), resting)
            if len(batches) > max_batches:
                raise errors.UsageError(
                    f"the run has {len(batches)} batches and the most is {max_batches}; split its schedule by source"
                )
        except errors.PermanentError as error:  # another worker would find the same
            runs.close(tx, run_id, owner, RunState.FAILED, str(error), type(error).__name__)
            armed = 0
        else:
            armed = runs.plan(tx, claimed, owner, batches, cap)
    if not armed:  # closed at once, or its batches wait for places
        promote.after(postgres, claimed.job_id)
    return armed


def plan(
    claimed: Run,
    wanted: Iterable[Source],
    datasets: Sequence[str],
    resting: Collection[tuple[UUID, str]] = (),
) -> list[NewBatch]:
    """The batches of a run: every source that still exists at its provider, times every dataset.

    `resting` are those of (source, dataset) that are not asked about yet.
    """
    return [
        NewBatch(
            id=jobs.batch_id(claimed.id, source.id, dataset),
            source_id=source.id,
            dataset=dataset,
            queue=queues.provider_queue(source.provider),
        )
        for source in wanted
        if source.state != "gone"
        for dataset in datasets
        if (source.id, dataset) not in resting
    ]


def _resting(tx: Transaction, claimed: Run, wanted: Sequence[Source]) -> frozenset[tuple[UUID, str]]:
    """What a schedule leaves out for a while; who asks by hand for one source gets all of it."""
    if claimed.trigger == "manual":
        return frozenset()
    return sources.resting_datasets(tx, claimed.org_id, [source.id for source in wanted])


def _wanted_sources(tx: Transaction, claimed: Run) -> list[Source]:
    return sources.sources(tx, claimed.org_id, claimed.provider, runs.wanted_source_ids(tx, claimed))
