"""Explain: one answer to "why is it not running?", for a scheduled job, a run or a batch. Looks at both stores, changes nothing.

The facts come from `store.explain` and `explain_fleet`, the reasons from `explain_job`, `explain_run`, `explain_batch` and
`explain_message`; here they meet.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

import redis

from worker_app import errors
from worker_app.store import explain as facts_of
from worker_app.store import rescue
from worker_app.store.explain import FITS_SHOWN, BatchFacts, Fit, JobFacts, Place, RunFacts
from worker_app.store.postgres import Postgres, Transaction
from worker_app.sync import explain_batch, explain_fleet, explain_job, explain_run
from worker_app.sync.explain_findings import Bounds, Finding, short
from worker_app.sync.explain_fleet import Fleet, Wanted
from worker_app.sync.explain_job import LedgerLine
from worker_app.sync.explain_message import Waiting

MORE_LOOKS = (
    2  # a message that is nowhere may have been worked off between the look at one store and the look at the other
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why something is not running. The field names are public."""

    what: str  # job, run, batch
    id: UUID
    org: str
    state: str
    answer: str  # one sentence: the decisive finding
    findings: tuple[Finding, ...]  # the decisive one first
    ledger: tuple[LedgerLine, ...] = ()  # of a job: its newest slots, the newest first
    batches: dict[str, int] = field(default_factory=dict)  # of a run: state -> batches


@dataclass(frozen=True, slots=True)
class _Facts:
    """What Postgres said in one snapshot."""

    subject: JobFacts | RunFacts | BatchFacts
    place: Place | None
    redis_epoch: str | None

    def wanted(self) -> list[Wanted]:
        """The messages that left the outbox and that something waits for."""
        run = self.subject.run if isinstance(self.subject, JobFacts) else self.subject
        waits: list[Waiting | None] = []
        if isinstance(run, RunFacts):
            waits = [explain_run.run_waits(run), *map(explain_batch.batch_waits, run.batches)]
        elif isinstance(run, BatchFacts):
            waits = [explain_batch.batch_waits(run)]
        return [item.wanted for item in waits if item is not None and item.owed is None]


def explain(postgres: Postgres, broker: redis.Redis, locks: redis.Redis, bounds: Bounds, named: str) -> Explanation:
    """Why the job, run or batch with this id, or this unambiguous beginning of an id, is not running; or the job of a source.

    Answers from Postgres alone where Redis is away. Raises UsageError where nothing or more than one thing fits, StoreAway
    where Postgres does not answer.
    """
    found = find(postgres, named)

    def look() -> tuple[_Facts, Fleet]:
        facts = _read(postgres, found)
        return facts, explain_fleet.read(broker, locks, facts.wanted(), facts.redis_epoch, bounds.fleets)

    facts, fleet = look()
    for _ in range(MORE_LOOKS):
        wanted = facts.wanted()
        if not _is_any_missing(fleet, wanted):
            break
        facts, fleet = look()
        if facts.wanted() == wanted:
            break
    return _explanation(found, facts, fleet, bounds)


def find(postgres: Postgres, named: str) -> Fit:
    """The one thing that fits. Raises UsageError that lists what fits, or says where to look."""
    with postgres.transaction() as tx:
        every = facts_of.fits(tx, named) if named.strip() else []
    for item in every:
        if item.what == "active":  # somebody asked for it by hand and waits
            return replace(item, what="run")
    found = [item for item in every if item.what != "source"]
    if len(found) == 1:
        return found[0]
    if found:
        shown = ", ".join(f"{item.what} {item.id} ({item.detail}, {item.org})" for item in found[:FITS_SHOWN])
        more = ", and more" if len(found) > FITS_SHOWN else ""
        raise errors.UsageError(f"several things fit {named!r}: {shown}{more}; name one by more of its id")
    if every:
        raise errors.UsageError(
            f"source {every[0].detail} has no schedule, so nothing is to run; `dev-hops sync {every[0].id}` syncs it now"
        )
    raise errors.UsageError(
        f"no job, run or batch has an id that begins with {named!r}, and no source has that name; "
        "`dev-hops schedules list` and `dev-hops runs list` show those there are"
    )


def _is_any_missing(fleet: Fleet, wanted: Sequence[Wanted]) -> bool:
    """Whether a message is nowhere in a Redis that could be read."""
    return bool(fleet.depths) and any(
        item.subject not in fleet.ahead and item.subject not in fleet.taken for item in wanted
    )


def _read(postgres: Postgres, found: Fit) -> _Facts:
    read: dict[str, Callable[[Transaction, UUID], JobFacts | RunFacts | BatchFacts | None]] = {
        "job": facts_of.job,
        "run": facts_of.run,
        "batch": facts_of.batch,
    }
    with postgres.transaction() as tx:
        facts_of.snapshot(tx)
        subject = read[found.what](tx, found.id)
        if subject is None:
            raise errors.UsageError(f"{found.what} {found.id} was removed just now")
        place = None if not isinstance(subject, BatchFacts) else facts_of.place(tx, subject.org_id, subject.provider)
        return _Facts(subject, place, rescue.redis_epoch(tx))


def _explanation(found: Fit, facts: _Facts, fleet: Fleet, bounds: Bounds) -> Explanation:
    subject = facts.subject
    lines: tuple[LedgerLine, ...] = ()
    batches: dict[str, int] = {}
    if isinstance(subject, JobFacts):
        state, lines = explain_job.job_state(subject), explain_job.ledger(subject)
        findings = explain_job.job_findings(subject, fleet, bounds)
    elif isinstance(subject, RunFacts):
        state, batches = explain_run.run_state(subject), subject.counts
        findings = explain_run.run_findings(subject, fleet, bounds)
    else:
        state = subject.state
        findings = explain_batch.batch_findings(subject, facts.place, fleet, bounds)
    answer = f"{found.what} {short(found.id)} is {state}: {findings[0].text}"
    return Explanation(found.what, found.id, found.org, state, answer, tuple(findings), lines, batches)
