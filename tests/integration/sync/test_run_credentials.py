"""One version of a credential from a run's plan to its end: what is replaced, removed or given meanwhile counts for the next."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

from tests import waiting
from tests.integration.credentials.sealed import add, resolver_of, token
from tests.seed import NOON, Seed, column, execute
from worker_app.jobs import NO_CREDENTIAL
from worker_app.records import Cursor, Page, Reader, Source, Walk
from worker_app.store import batches, credentials, explain, runs, sources
from worker_app.store.credentials import Entry
from worker_app.store.explain import PlannedCredential
from worker_app.store.postgres import Postgres
from worker_app.sync import batch, control, finish, plan, prune
from worker_app.sync.batch import Bounds
from worker_app.sync.explain_credentials import credential_findings

pytestmark = pytest.mark.integration
CAP = 20
BOUNDS = Bounds(lease_seconds=60, deadline_seconds=60, cap=CAP)
STAMPS = "SELECT version FROM run_credentials WHERE run_id = :run_id ORDER BY credential_id, version"
OLDER_PLAN = "UPDATE sync_batches SET credential_id = NULL"  # what a program leaves that knows no stamps


class Empty:
    """A reader of one page without records."""

    def begin(self, source: Source, cursor: Cursor, now: object) -> Walk:
        return Walk(started_at=NOON)

    def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
        yield Page(records=(), next=None)


class Team:
    """An organisation with one source on GitHub, and the tokens that its batches are signed with."""

    def __init__(self, postgres: Postgres, name: str = "acme") -> None:
        self.postgres = postgres
        self.made: Seed = waiting.github(postgres, name)
        self.used: list[str] = []  # by the batches, in their order

    def add(self, text: str, name: str = "main", *, replaces: bool = False, revoke_old: bool = False) -> Entry:
        """A credential under a name."""
        org_id = self.made.org.id
        return add(self.postgres, org_id, token(text), name, replaces=replaces, revoke_old=revoke_old)

    def choose(self, entry: Entry | None) -> None:
        """The credential that the source is read with from the next plan on."""
        with self.postgres.transaction() as tx:
            sources.set_credential(tx, self.made.source, None if entry is None else entry.id)

    def plan(self) -> UUID:
        """A planned run of the source, all its batches queued."""
        run_id = uuid4()
        with self.postgres.transaction() as tx:
            runs.add_manual(tx, self.made.org.id, "github", self.made.source.id, run_id)
        plan.run(self.postgres, run_id, lease_seconds=60, cap=CAP, max_batches=100)
        return run_id

    def batches(self, run_id: UUID) -> list[UUID]:
        """The queued batches of a run."""
        query = "SELECT id FROM sync_batches WHERE run_id = :run_id AND state = 'queued' ORDER BY id"
        return column(self.postgres, query, run_id=run_id)  # type: ignore[return-value]

    def run(self, batch_id: UUID) -> str:
        """Run one batch."""
        given = {"reader_of": self._reader, "bounds": BOUNDS, "is_draining": lambda: False}
        return batch.run(self.postgres, batch_id, **given)  # type: ignore[arg-type]

    def finish(self, run_id: UUID) -> list[str]:
        """Run what is queued of a run, close it, and tell how its batches ended."""
        ends = [self.run(item) for item in self.batches(run_id)]
        finish.run(self.postgres, run_id, lease_seconds=60)
        return ends

    def versions(self, run_id: UUID) -> list[object]:
        """The versions that are noted for a run."""
        return column(self.postgres, STAMPS, run_id=run_id)

    def planned_with(self, run_id: UUID, batch_id: UUID) -> list[PlannedCredential]:
        """What an explanation knows of a run's credentials, which is what it knows of its batch's."""
        with self.postgres.transaction() as tx:
            run, one = explain.run(tx, run_id), explain.batch(tx, batch_id)
        assert run is not None
        assert one is not None
        assert run.credentials == (() if one.credential is None else (one.credential,))
        return list(run.credentials)

    def _reader(self, source: Source, _: str, __: Callable[[], float]) -> Reader:
        if source.credential_id is None:
            self.used.append("none")
            return Empty()
        opened = resolver_of(self.postgres).resolve(source.org_id, source.credential_id, source.stamp)
        self.used.append(opened.token.reveal())  # type: ignore[union-attr]
        return Empty()


@pytest.fixture
def team(postgres: Postgres) -> Team:
    return Team(postgres)


def test_run_uses_the_version_of_its_plan_whatever_is_replaced_meanwhile(team: Team) -> None:
    team.choose(team.add("ghp_one"))
    run_id = team.plan()
    first, *others = team.batches(run_id)
    assert team.run(first) == "succeeded"
    team.add("ghp_two", replaces=True)
    team.add("ghp_three", replaces=True)
    assert team.finish(run_id) == ["succeeded"] * len(others)
    assert team.used == ["ghp_one"] * (1 + len(others))
    team.finish(team.plan())
    assert set(team.used[1 + len(others) :]) == {"ghp_three"}


def test_source_that_is_given_another_credential_keeps_that_of_the_plan_until_the_run_is_over(team: Team) -> None:
    other = team.add("ghp_other", "other")
    team.choose(team.add("ghp_one"))
    run_id = team.plan()
    for chosen, planned in ((other, "ghp_one"), (None, "ghp_other"), (None, "none")):
        team.choose(chosen)
        team.used.clear()
        team.finish(run_id)
        assert set(team.used) == {planned}
        run_id = team.plan()


def test_source_without_a_credential_is_read_without_one_until_the_run_is_over(team: Team) -> None:
    run_id = team.plan()
    team.choose(team.add("ghp_one"))
    team.finish(run_id)
    assert set(team.used) == {"none"}
    assert column(team.postgres, "SELECT DISTINCT credential_id FROM sync_batches") == [NO_CREDENTIAL]
    assert team.versions(run_id) == []


def test_plan_notes_every_credential_of_its_sources_once(team: Team) -> None:
    org_id, entries = team.made.org.id, [team.add(f"ghp_{name}", name) for name in ("one", "two")]
    with team.postgres.transaction() as tx:
        for number, entry in enumerate([*entries, entries[0]]):
            source = sources.add_source(tx, org_id, "github", "github.com", f"acme/r{number}", str(number))
            sources.set_credential(tx, source, entry.id)
    execute(
        team.postgres,
        "INSERT INTO sync_runs (id, org_id, kind, provider, trigger, deadline_at) "
        "VALUES (:id, :org_id, 'sync', 'github', 'manual', now() + interval '1 hour')",
        id=UUID(int=5), org_id=org_id,
    )  # fmt: skip
    plan.run(team.postgres, UUID(int=5), lease_seconds=60, cap=CAP, max_batches=100)
    query = (
        "SELECT r.credential_id FROM run_credentials r JOIN org_credentials c ON c.id = r.credential_id "
        "AND c.version = r.version AND c.fingerprint = r.fingerprint ORDER BY c.name"
    )
    assert column(team.postgres, query) == [entry.id for entry in entries]
    same = (
        "SELECT count(*) FROM sync_batches b JOIN sources s ON s.id = b.source_id "
        "WHERE b.credential_id = coalesce(s.credential_id, :none)"
    )
    total = column(team.postgres, "SELECT count(*) FROM sync_batches")
    assert column(team.postgres, same, none=NO_CREDENTIAL) == total


def test_failed_run_that_is_retried_uses_the_newest_version_for_what_failed(team: Team) -> None:
    team.choose(team.add("ghp_one"))
    run_id = team.plan()
    first, *others = team.batches(run_id)
    assert team.run(first) == "succeeded"
    team.add("ghp_two", replaces=True, revoke_old=True)
    assert team.finish(run_id) == ["failed"] * len(others)
    told = "SELECT error_class || ': ' || error FROM sync_runs WHERE id = :id"
    (error,) = column(team.postgres, told, id=run_id)
    assert str(error).startswith("CredentialRevoked: version 1 of credential 'main'")
    assert "`dev-hops runs retry`" in str(error)
    assert control.retry(team.postgres, run_id, cap=CAP) == len(others)
    assert team.versions(run_id) == [2]
    team.add("ghp_three", replaces=True)  # after this plan: for the next run
    assert team.finish(run_id) == ["succeeded"] * len(others)
    assert team.used == ["ghp_one"] + ["ghp_two"] * len(others)


def test_run_that_is_retried_uses_the_credential_that_its_source_has_now(team: Team) -> None:
    gone, other = team.add("ghp_gone"), team.add("ghp_other", "other")
    team.choose(gone)
    run_id = team.plan()
    with team.postgres.transaction() as tx:
        credentials.erase(tx, gone)
    assert set(team.finish(run_id)) == {"failed"}
    for entry, expected in ((other, "ghp_other"), (None, "none")):
        team.choose(entry)
        execute(team.postgres, "UPDATE sync_batches SET state = 'failed' WHERE run_id = :id", id=run_id)
        execute(team.postgres, "UPDATE sync_runs SET state = 'failed' WHERE id = :id", id=run_id)
        control.retry(team.postgres, run_id, cap=CAP)
        team.used.clear()
        assert set(team.finish(run_id)) == {"succeeded"}
        assert set(team.used) == {expected}


def test_retry_leaves_the_stamps_of_other_runs_alone(team: Team) -> None:
    entry = team.add("ghp_one")
    team.choose(entry)
    run_id, other = team.plan(), Team(team.postgres, "orbit")
    other.choose(other.add("ghp_one"))
    untouched = other.plan()
    for one in (team, other):
        one.add("ghp_two", replaces=True, revoke_old=True)
    team.finish(run_id)
    control.retry(team.postgres, run_id, cap=CAP)
    assert (team.versions(run_id), other.versions(untouched)) == ([2], [1])


def test_credential_that_is_removed_and_added_again_is_not_used_by_an_open_run(team: Team) -> None:
    entry = team.add("ghp_one")
    team.choose(entry)
    planned_before = team.plan()
    with team.postgres.transaction() as tx:
        credentials.erase(tx, entry)
    team.add("ghp_two")
    assert set(team.finish(planned_before)) == {"failed"}
    assert team.used == []
    team.finish(team.plan())
    assert set(team.used) == {"ghp_two"}


def test_run_that_was_planned_while_its_credential_was_removed_fails_also_when_it_comes_back(team: Team) -> None:
    entry = team.add("ghp_one")
    team.choose(entry)
    with team.postgres.transaction() as tx:
        credentials.erase(tx, entry)
    run_id = team.plan()
    team.add("ghp_two")
    assert set(team.finish(run_id)) == {"failed"}
    assert team.used == []


def test_credential_that_there_never_was_fails_the_run(team: Team) -> None:
    execute(team.postgres, "UPDATE sources SET credential_id = :id", id=uuid4())
    run_id = team.plan()
    assert set(team.finish(run_id)) == {"failed"}
    classes = column(team.postgres, "SELECT DISTINCT error_class FROM sync_batches")
    assert (classes, team.versions(run_id)) == (["CredentialMissing"], [])


def test_run_that_an_older_program_planned_uses_the_version_that_its_first_batch_met(team: Team) -> None:
    team.choose(team.add("ghp_one"))
    run_id = team.plan()
    execute(team.postgres, OLDER_PLAN)
    execute(team.postgres, "DELETE FROM run_credentials")
    team.add("ghp_two", replaces=True)
    first, *others = team.batches(run_id)
    assert team.run(first) == "succeeded"
    team.add("ghp_three", replaces=True)
    assert team.finish(run_id) == ["succeeded"] * len(others)
    assert team.used == ["ghp_two"] * (1 + len(others))


def test_batches_of_an_older_plan_that_are_claimed_at_once_share_one_version(team: Team) -> None:
    team.choose(team.add("ghp_one"))
    run_id = team.plan()
    execute(team.postgres, OLDER_PLAN)
    execute(team.postgres, "DELETE FROM run_credentials")
    every = team.batches(run_id)
    barrier = threading.Barrier(len(every) + 1)

    def one(batch_id: UUID) -> object:
        barrier.wait(20)
        with team.postgres.transaction() as tx:
            claimed = batches.claim(tx, batch_id, uuid4(), lease_seconds=60, cap=CAP)
        assert claimed is not None
        return claimed.credential_id, claimed.stamp

    with ThreadPoolExecutor(len(every)) as pool:
        found = [pool.submit(one, batch_id) for batch_id in every]
        barrier.wait(20)
        team.add("ghp_two", replaces=True)
        assert len({item.result(20) for item in found}) == 1


def test_older_plan_of_a_source_without_a_credential_is_read_without_one(team: Team) -> None:
    run_id = team.plan()
    execute(team.postgres, OLDER_PLAN)
    first, *_ = team.batches(run_id)
    assert team.run(first) == "succeeded"
    assert team.used == ["none"]


def test_explanation_names_the_version_of_the_plan_and_one_that_was_revoked(team: Team) -> None:
    team.choose(team.add("ghp_one"))
    run_id = team.plan()
    first, *_ = team.batches(run_id)
    team.add("ghp_two", replaces=True)
    assert team.planned_with(run_id, first) == [PlannedCredential("main", "github.com", 1, "superseded")]
    team.add("ghp_three", replaces=True, revoke_old=True)
    assert team.planned_with(run_id, first) == [PlannedCredential("main", "github.com", 1, "revoked")]
    (found,) = credential_findings(team.planned_with(run_id, first), run_id)
    assert (found.code, found.remedy) == (
        "credential_revoked",
        f"when its run is over, dev-hops runs retry {str(run_id)[:8]}",
    )


def test_explanation_of_what_is_read_without_a_credential_names_none(team: Team) -> None:
    run_id = team.plan()
    first, *_ = team.batches(run_id)
    assert team.planned_with(run_id, first) == []


def test_version_is_kept_for_an_open_run_and_erased_when_nothing_holds_it(team: Team) -> None:
    team.choose(team.add("ghp_one"))
    run_id = team.plan()
    team.add("ghp_two", replaces=True)
    long_ago(team.postgres)
    assert prune.run(team.postgres, days=90).credential_versions == 0
    assert set(team.finish(run_id)) == {"succeeded"}
    assert prune.run(team.postgres, days=90).credential_versions == 1
    assert states(team.postgres) == ["revoked", "active"]
    sizes = "SELECT length(wrapped_dek) + length(ciphertext) FROM org_credentials ORDER BY version"
    assert [size == 0 for size in column(team.postgres, sizes)] == [True, False]
    assert prune.run(team.postgres, days=90).credential_versions == 0


def test_version_that_was_replaced_just_now_is_kept_for_a_plan_that_nobody_sees_yet(team: Team) -> None:
    team.add("ghp_one")
    team.add("ghp_two", replaces=True)
    assert prune.run(team.postgres, days=90).credential_versions == 0
    long_ago(team.postgres)
    assert prune.run(team.postgres, days=90).credential_versions == 1


def test_replacement_that_revokes_the_old_versions_leaves_other_credentials_alone(team: Team) -> None:
    team.add("ghp_beside", "beside")
    team.add("ghp_beside2", "beside", replaces=True)
    team.add("ghp_one")
    team.add("ghp_two", replaces=True, revoke_old=True)
    assert states(team.postgres) == ["superseded", "active", "revoked", "active"]


def long_ago(postgres: Postgres) -> None:
    """Let all that was written lie two hours back."""
    execute(postgres, "UPDATE org_credentials SET created_at = created_at - interval '2 hours'")


def states(postgres: Postgres) -> list[object]:
    return column(postgres, "SELECT state FROM org_credentials ORDER BY name, version")
