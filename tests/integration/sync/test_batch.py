from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import redis

from tests.repositories import Repository, generate
from tests.seed import Seed, column, execute, manual_run, seed
from worker_app import errors
from worker_app.providers.git import GitReader
from worker_app.records import Page, Reader, Source, Walk
from worker_app.store import runs, sources
from worker_app.store.postgres import Postgres
from worker_app.sync import batch, finish, plan, rescue
from worker_app.sync.batch import Bounds

pytestmark = pytest.mark.integration
BOUNDS = Bounds(lease_seconds=60, deadline_seconds=300, cap=8)


def planned(postgres: Postgres, made: Seed) -> tuple[UUID, UUID]:
    """A planned run of the source and its batch."""
    run_id = manual_run(postgres, made)
    assert plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=100) == 1
    (batch_id,) = column(postgres, "SELECT id FROM sync_batches WHERE run_id = :id", id=run_id)
    return run_id, batch_id  # type: ignore[return-value]


def work(
    postgres: Postgres,
    batch_id: UUID,
    reader: Reader,
    bounds: Bounds = BOUNDS,
    is_draining: Callable[[], bool] = lambda: False,
) -> str:
    return batch.run(postgres, batch_id, reader_of=lambda *_: reader, bounds=bounds, is_draining=is_draining)


def git_reader(tmp_path: Path, page_size: int = 10) -> GitReader:
    return GitReader(tmp_path / "mirrors", allow_file=True, page_size=page_size)


def sync(postgres: Postgres, made: Seed, reader: Reader) -> str:
    """One whole run; returns the state it ended in."""
    run_id, batch_id = planned(postgres, made)
    work(postgres, batch_id, reader)
    state = finish.run(postgres, run_id, lease_seconds=60)
    assert state is not None
    return state.value


def shas(postgres: Postgres, where: str = "true") -> set[object]:
    return set(column(postgres, f"SELECT ext_id FROM commits WHERE {where}"))


def reachable(repository: Path) -> set[object]:
    return set(Repository(repository).git("rev-list", "--branches", "--tags").split())


class Interrupting:
    """A reader that raises after so many pages: a worker that dies there."""

    def __init__(self, inner: GitReader, pages: int, error: BaseException) -> None:
        self._inner = inner
        self._pages = pages
        self._error = error

    def begin(self, *given: object) -> Walk:
        return self._inner.begin(*given)  # type: ignore[arg-type]

    def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
        for index, page in enumerate(self._inner.read(source, walk, position)):
            if index == self._pages:
                raise self._error
            yield page


class Killed(BaseException):
    """Stands for a process that is gone: nothing catches it."""


def test_run_stores_every_commit_and_moves_the_cursor(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=57, branches=2, merge_every=9)
    made = seed(postgres, path=tmp_path / "r")
    assert sync(postgres, made, git_reader(tmp_path)) == "succeeded"
    assert shas(postgres) == reachable(tmp_path / "r")
    (view,) = [item for item in _views(postgres) if item.kind == "sync"]
    assert (view.records, view.batches_done, view.batches_total, view.expected) == (57, 1, 1, 57)
    with postgres.transaction() as tx:
        assert set(sources.cursor(tx, made.org.id, made.source.id, "commits").tips.values()) <= reachable(
            tmp_path / "r"
        )


def test_second_run_reads_only_what_is_new(postgres: Postgres, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "r")
    repository.commit({b"a": b"1\n"})
    made, reader = seed(postgres, path=tmp_path / "r"), git_reader(tmp_path)
    sync(postgres, made, reader)
    new = repository.commit({b"a": b"2\n"})
    assert sync(postgres, made, reader) == "succeeded"
    assert column(postgres, "SELECT records FROM sync_batches ORDER BY created_at") == [1, 1]
    assert new in shas(postgres)


def test_second_message_for_the_same_batch_is_a_duplicate(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=3)
    _, batch_id = planned(postgres, seed(postgres, path=tmp_path / "r"))
    assert work(postgres, batch_id, git_reader(tmp_path)) == "succeeded"
    assert work(postgres, batch_id, git_reader(tmp_path)) == "duplicate"
    assert work(postgres, uuid4(), git_reader(tmp_path)) == "duplicate"


def test_killed_worker_costs_one_page_and_rescue_lets_the_batch_go_on(
    postgres: Postgres, tmp_path: Path, redis_client: redis.Redis
) -> None:
    generate(tmp_path / "r", commits=95)
    run_id, batch_id = planned(postgres, seed(postgres, path=tmp_path / "r"))
    reader = git_reader(tmp_path)
    for _ in range(3):
        with pytest.raises(Killed):
            work(postgres, batch_id, Interrupting(reader, 2, Killed()))
        assert work(postgres, batch_id, reader) == "duplicate"  # the lease of the dead one still runs
        execute(postgres, "UPDATE sync_batches SET lease_until = now() - interval '1 second'")
        found = rescue.sweep(postgres, redis_client, cap=8, visibility_timeout_seconds=3600)
        assert found.batches == 1
    assert work(postgres, batch_id, reader) == "succeeded"
    assert shas(postgres) == reachable(tmp_path / "r")
    assert column(postgres, "SELECT records FROM sync_batches") == [95]
    assert column(postgres, "SELECT attempt FROM sync_batches") == [3]
    assert finish.run(postgres, run_id, lease_seconds=60) == "succeeded"


class Cutting(Interrupting):
    """A reader whose first page was cut, and which dies after it."""

    def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
        for index, page in enumerate(self._inner.read(source, walk, position)):
            if index == self._pages:
                raise self._error
            yield page._replace(complete=False, reason="the list was cut at 250")


def test_page_that_was_cut_before_a_kill_keeps_the_run_partial(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=35)
    run_id, batch_id = planned(postgres, seed(postgres, path=tmp_path / "r"))
    reader = git_reader(tmp_path)
    with pytest.raises(Killed):
        work(postgres, batch_id, Cutting(reader, 1, Killed()))
    execute(postgres, "UPDATE sync_batches SET lease_until = now() - interval '1 second'")
    assert work(postgres, batch_id, reader) == "incomplete"
    assert finish.run(postgres, run_id, lease_seconds=60) == "partial"
    assert column(postgres, "SELECT error FROM sync_runs WHERE kind = 'sync'") == ["the list was cut at 250"]
    assert column(postgres, "SELECT count(*) FROM sync_cursors") == [0]


def test_batch_that_could_not_be_closed_after_its_last_page_reads_nothing_again(
    postgres: Postgres, tmp_path: Path
) -> None:
    generate(tmp_path / "r", commits=5)
    run_id, batch_id = planned(postgres, seed(postgres, path=tmp_path / "r"))
    execute(
        postgres,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$; "
        "CREATE TRIGGER refuse BEFORE UPDATE ON sync_batches FOR EACH ROW "
        "WHEN (NEW.state = 'succeeded') EXECUTE FUNCTION refuse()",
    )
    with pytest.raises(Exception, match="refused"):
        work(postgres, batch_id, git_reader(tmp_path))
    assert column(postgres, "SELECT state || attempt FROM sync_batches") == ["queued1"]
    execute(postgres, "DROP TRIGGER refuse ON sync_batches; UPDATE sync_batches SET not_before = NULL")
    assert work(postgres, batch_id, git_reader(tmp_path)) == "succeeded"
    assert column(postgres, "SELECT records FROM sync_batches") == [5]
    assert finish.run(postgres, run_id, lease_seconds=60) == "succeeded"


def test_worker_that_lost_its_lease_writes_nothing_more(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=50)
    _, batch_id = planned(postgres, seed(postgres, path=tmp_path / "r"))
    inner = git_reader(tmp_path)

    class Slow(Interrupting):
        def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
            for index, page in enumerate(self._inner.read(source, walk, position)):
                if index == 1:
                    execute(postgres, "UPDATE sync_batches SET lease_owner = gen_random_uuid()")
                yield page

    assert work(postgres, batch_id, Slow(inner, 0, Killed())) == "lost"
    assert len(shas(postgres)) == 10


def test_batch_yields_at_its_deadline_and_goes_on_at_its_cursor(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=35)
    _, batch_id = planned(postgres, seed(postgres, path=tmp_path / "r"))
    hasty = Bounds(lease_seconds=60, deadline_seconds=0, cap=8)
    reader = git_reader(tmp_path)
    assert [work(postgres, batch_id, reader, hasty) for _ in range(4)][:3] == ["yielded"] * 3
    assert work(postgres, batch_id, reader) in ("succeeded", "duplicate")
    assert shas(postgres) == reachable(tmp_path / "r")
    assert column(postgres, "SELECT attempt FROM sync_batches") == [0]


def test_draining_worker_gives_the_batch_back_without_spending_an_attempt(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=35)
    _, batch_id = planned(postgres, seed(postgres, path=tmp_path / "r"))
    assert work(postgres, batch_id, git_reader(tmp_path), is_draining=lambda: True) == "drained"
    assert column(postgres, "SELECT state || attempt FROM sync_batches") == ["queued0"]
    assert column(postgres, "SELECT count(*) FROM task_outbox WHERE task = 'run_sync_batch'") == [2]


def test_transient_fault_spends_an_attempt_and_the_fifth_fails_the_batch(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=5)
    run_id, batch_id = planned(postgres, seed(postgres, path=tmp_path / "r"))
    broken = Interrupting(git_reader(tmp_path), 0, errors.TransientError("remote hung up"))
    ends = []
    for _ in range(5):
        execute(postgres, "UPDATE sync_batches SET not_before = NULL")
        ends.append(work(postgres, batch_id, broken))
    assert ends == ["retried"] * 4 + ["failed"]
    assert finish.run(postgres, run_id, lease_seconds=60) == "failed"
    assert column(postgres, "SELECT error FROM sync_runs WHERE kind = 'sync'") == ["remote hung up"]


def test_walk_that_was_lost_begins_anew(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=25)
    _, batch_id = planned(postgres, seed(postgres, path=tmp_path / "r"))
    lost = Interrupting(git_reader(tmp_path), 1, errors.WalkLost("the tips are gone"))
    assert work(postgres, batch_id, lost) == "retried"
    assert column(postgres, "SELECT walk IS NULL AND cursor IS NULL FROM sync_batches") == [True]
    owed = "SELECT m.dedupe FROM task_outbox m JOIN sync_batches b ON m.available_at = b.not_before "
    owed += "WHERE m.available_at - now() BETWEEN interval '5 seconds' AND interval '15 seconds'"
    assert column(postgres, owed) == [f"batch/{batch_id}/2"]  # it comes again after its back-off, not before


def test_source_that_cannot_be_read_fails_its_run_and_says_why(postgres: Postgres, tmp_path: Path) -> None:
    made = seed(postgres, path=tmp_path / "missing")
    assert sync(postgres, made, git_reader(tmp_path)) == "failed"
    (state,) = column(postgres, "SELECT state FROM sources")
    (reason,) = column(postgres, "SELECT state_reason FROM sources")
    assert state == "inaccessible"
    assert str(tmp_path / "missing") in str(reason)
    generate(tmp_path / "missing", commits=2)
    assert sync(postgres, made, git_reader(tmp_path)) == "succeeded"
    assert column(postgres, "SELECT state FROM sources") == ["active"]


def test_empty_repository_succeeds_with_nothing(postgres: Postgres, tmp_path: Path) -> None:
    Repository.create(tmp_path / "r")
    assert sync(postgres, seed(postgres, path=tmp_path / "r"), git_reader(tmp_path)) == "succeeded"
    assert column(postgres, "SELECT state FROM sources") == ["empty"]
    assert shas(postgres) == set()


def test_shallow_source_is_partial_and_its_cursor_stays(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=30)
    Repository(tmp_path / "r").clone_shallow(tmp_path / "s", depth=5)
    made = seed(postgres, path=tmp_path / "s")
    assert sync(postgres, made, git_reader(tmp_path)) == "partial"
    assert len(shas(postgres)) == 5
    assert len(shas(postgres, "additions IS NULL")) == 1
    assert column(postgres, "SELECT count(*) FROM sync_cursors") == [0]
    (error,) = column(postgres, "SELECT error FROM sync_runs WHERE kind = 'sync'")
    assert "shallow" in str(error)


def test_forced_push_marks_what_no_branch_leads_to(postgres: Postgres, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "r")
    base = repository.commit({b"a": b"1\n"})
    gone = repository.commit({b"a": b"2\n"})
    made, reader = seed(postgres, path=tmp_path / "r"), git_reader(tmp_path)
    sync(postgres, made, reader)
    repository.set_branch("main", base)
    kept = repository.commit({b"a": b"3\n"})
    sync(postgres, made, reader)
    assert shas(postgres, "reachable") == {base, kept}
    assert shas(postgres, "NOT reachable") == {gone}
    repository.set_branch("rescued", gone)
    sync(postgres, made, reader)
    assert shas(postgres, "reachable") == {base, kept, gone}


def test_forced_push_seen_by_a_fresh_mirror_marks_the_same(postgres: Postgres, tmp_path: Path) -> None:
    repository = Repository.create(tmp_path / "r")
    base = repository.commit({b"a": b"1\n"})
    gone = repository.commit({b"a": b"2\n"})
    made = seed(postgres, path=tmp_path / "r")
    sync(postgres, made, git_reader(tmp_path / "one"))
    repository.set_branch("main", base)
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "--quiet", "--prune=now")
    sync(postgres, made, git_reader(tmp_path / "two"))
    assert (shas(postgres, "reachable"), shas(postgres, "NOT reachable")) == ({base}, {gone})


def test_organisations_with_the_same_repository_never_meet(postgres: Postgres, tmp_path: Path) -> None:
    generate(tmp_path / "r", commits=4)
    for name in ("a", "b"):
        sync(postgres, seed(postgres, name, path=tmp_path / "r"), git_reader(tmp_path))
    assert column(postgres, "SELECT count(*) FROM commits GROUP BY org_id") == [4, 4]
    assert column(postgres, "SELECT count(DISTINCT author_email_hash) FROM commits GROUP BY ext_id") == [2] * 4


def test_cap_lets_the_rest_wait_in_postgres(postgres: Postgres, tmp_path: Path) -> None:
    made = seed(postgres)
    with postgres.transaction() as tx:
        for number in range(6):
            sources.add_source(tx, made.org.id, "git", "localhost", f"/r{number}", f"/r{number}")
        run_id = uuid4()
        tx.exec_driver_sql(
            "INSERT INTO sync_runs (id, org_id, kind, provider, trigger, deadline_at) "
            "VALUES (%s, %s, 'sync', 'git', 'manual', now() + interval '1 day')",
            (run_id, made.org.id),
        )
    assert plan.run(postgres, run_id, lease_seconds=60, cap=3, max_batches=100) == 3
    assert column(postgres, "SELECT count(*) FROM sync_batches GROUP BY state ORDER BY state") == [4, 3]
    (batch_id,) = column(postgres, "SELECT id FROM sync_batches WHERE state = 'queued' LIMIT 1")
    assert work(postgres, batch_id, git_reader(tmp_path)) == "failed"  # type: ignore[arg-type]
    assert column(postgres, "SELECT count(*) FROM sync_batches WHERE state = 'queued'") == [3]


def test_run_with_more_batches_than_allowed_is_refused_not_stranded(postgres: Postgres) -> None:
    run_id = manual_run(postgres, seed(postgres))
    assert plan.run(postgres, run_id, lease_seconds=60, cap=3, max_batches=0) == 0
    assert column(postgres, "SELECT state FROM sync_runs") == ["failed"]


def test_run_without_batches_is_finished(postgres: Postgres) -> None:
    made = seed(postgres)
    run_id = manual_run(postgres, made)
    execute(postgres, "UPDATE sources SET state = 'gone'")
    assert plan.run(postgres, run_id, lease_seconds=60, cap=3, max_batches=10) == 1
    assert finish.run(postgres, run_id, lease_seconds=60) == "succeeded"


def test_second_manual_run_names_the_active_one_and_the_same_key_is_one_run(postgres: Postgres) -> None:
    made = seed(postgres)
    run_id = manual_run(postgres, made)
    with pytest.raises(errors.Conflict, match=str(run_id)):
        manual_run(postgres, made)
    with postgres.transaction() as tx:
        assert runs.add_manual(tx, made.org.id, "git", made.source.id, run_id) == run_id


def _views(postgres: Postgres) -> list[runs.RunView]:
    with postgres.transaction() as tx:
        return runs.views(tx)
