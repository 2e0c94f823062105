"""Sources: identity and names, states with what the provider said, datasets that are switched off."""

import threading
from datetime import timedelta
from itertools import pairwise
from uuid import UUID

import pytest

from tests.seed import NOON, Seed, column, execute, manual_run, seed
from worker_app import errors
from worker_app.records import Source, Walk
from worker_app.store import sources
from worker_app.store.postgres import Postgres
from worker_app.sync import finish, plan

pytestmark = pytest.mark.integration

ISSUES = "work_items"


def rename(postgres: Postgres, item: Source, external_name: str) -> Source:
    with postgres.transaction() as tx:
        return sources.rename(tx, item, external_name)


def set_state(postgres: Postgres, made: Seed, state: str, reason: str | None = None, **changes: object) -> None:
    with postgres.transaction() as tx:
        sources.set_state(tx, made.org.id, made.source.id, state, reason, **changes)  # type: ignore[arg-type]


def disable(postgres: Postgres, made: Seed, reason: str = "issues are switched off") -> None:
    with postgres.transaction() as tx:
        sources.disable_dataset(tx, made.org.id, made.source.id, ISSUES, reason)


def walked(postgres: Postgres, made: Seed, walk: Walk) -> None:
    with postgres.transaction() as tx:
        sources.move_cursor(tx, made.org.id, made.source.id, ISSUES, walk)


def disabled(postgres: Postgres, made: Seed) -> frozenset[tuple[UUID, str]]:
    with postgres.transaction() as tx:
        return sources.resting_datasets(tx, made.org.id, [made.source.id])


def test_source_whose_identity_is_a_number_is_found_by_id_name_end_of_name_and_number(
    postgres: Postgres, api: Seed
) -> None:
    for name in (str(api.source.id), "acme/api", "api", "2310943199"):
        with postgres.transaction() as tx:
            assert sources.source(tx, name) == api.source


def test_source_that_is_there_under_another_name_is_named(postgres: Postgres, api: Seed) -> None:
    for name, text in [
        ("beta/b", "source beta/b exists already as acme/api"),
        ("acme/api", "source acme/api exists already"),
    ]:
        with pytest.raises(errors.Conflict) as caught, postgres.transaction() as tx:
            sources.add_source(tx, api.org.id, "github", "github.com", name, api.source.ext_id)
        assert str(caught.value) == text


def test_f25_renamed_source_stays_one_row_with_a_history_of_its_names(postgres: Postgres, api: Seed) -> None:
    renamed = rename(postgres, api.source, "beta/b")
    assert (renamed.id, renamed.ext_id, renamed.external_name) == (api.source.id, api.source.ext_id, "beta/b")
    assert rename(postgres, renamed, "acme/api").external_name == "acme/api"
    assert column(postgres, "SELECT external_name FROM sources") == ["acme/api"]
    assert column(postgres, "SELECT external_name FROM source_names ORDER BY seen_from") == ["acme/api", "beta/b"]
    gaps = (
        "SELECT count(*) FROM source_names a JOIN source_names b ON b.seen_from = a.seen_to "
        "JOIN sources s ON s.id = a.source_id AND s.first_seen = a.seen_from WHERE a.seen_from < a.seen_to"
    )
    assert column(postgres, gaps) == [1]


def test_rename_to_the_same_name_writes_no_history(postgres: Postgres, api: Seed) -> None:
    rename(postgres, api.source, "beta/b")
    rename(postgres, api.source, "beta/b")
    assert column(postgres, "SELECT external_name FROM source_names") == ["acme/api"]


def test_renames_at_once_follow_each_other(postgres: Postgres, api: Seed) -> None:
    ready = threading.Barrier(8)

    def work(number: int) -> None:
        ready.wait(10)
        rename(postgres, api.source, f"acme/{number % 4}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=15)
    broken = (
        "SELECT count(*) FROM (SELECT seen_from, lag(seen_to) OVER (ORDER BY seen_to) AS before FROM source_names) n "
        "WHERE before <> seen_from"
    )
    assert column(postgres, broken) == [0]
    names = column(postgres, "SELECT external_name FROM source_names ORDER BY seen_to")
    assert names[0] == "acme/api"
    assert all(name != after for name, after in pairwise(names))


def test_history_of_names_goes_with_the_source(postgres: Postgres, api: Seed) -> None:
    renamed = rename(postgres, api.source, "beta/b")
    with postgres.transaction() as tx:
        sources.remove_source(tx, renamed)
    assert column(postgres, "SELECT count(*) FROM source_names") == [0]


def test_state_keeps_what_the_provider_said_and_since_when(postgres: Postgres, api: Seed) -> None:
    said = {"status": 403, "headers": {"x-github-sso": "required; url=https://github.com/orgs/acme/sso"}, "body": "SSO"}
    set_state(postgres, api, "sso_required", "sign in at https://github.com/orgs/acme/sso", evidence=said)
    assert column(postgres, "SELECT state || ': ' || state_reason FROM sources") == [
        "sso_required: sign in at https://github.com/orgs/acme/sso"
    ]
    assert column(postgres, "SELECT state_evidence FROM sources") == [said]
    (since,) = column(postgres, "SELECT state_since FROM sources")
    set_state(postgres, api, "sso_required", "again", evidence={"status": 403})
    assert column(postgres, "SELECT state_since FROM sources") == [since]
    set_state(postgres, api, "active")
    assert column(postgres, "SELECT state_since > :since FROM sources", since=since) == [True]
    assert column(postgres, "SELECT state_evidence FROM sources") == [None]


def test_f42_evidence_that_postgres_takes_in_no_text_is_replaced(postgres: Postgres, api: Seed) -> None:
    said = {"body": "a\x00b \ud83d", "headers": {"x\x00": ["1\x00"]}}
    set_state(postgres, api, "inaccessible", "403", evidence=said)
    assert column(postgres, "SELECT state_evidence FROM sources") == [
        {"body": "a\ufffdb ?", "headers": {"x\ufffd": ["1\ufffd"]}}
    ]


def test_f23_dataset_that_is_switched_off_is_asked_again_after_a_week(postgres: Postgres, api: Seed) -> None:
    disable(postgres, api)
    assert disabled(postgres, api) == {(api.source.id, ISSUES)}
    execute(postgres, "UPDATE sync_cursors SET asked_at = now() - interval '6 days 23 hours'")
    assert disabled(postgres, api) == {(api.source.id, ISSUES)}
    execute(postgres, "UPDATE sync_cursors SET asked_at = now() - interval '7 days'")
    assert disabled(postgres, api) == frozenset()


def test_dataset_that_is_still_off_waits_another_week_and_keeps_since_when(postgres: Postgres, api: Seed) -> None:
    disable(postgres, api)
    week = "now() - interval '8 days'"
    execute(postgres, f"UPDATE sync_cursors SET asked_at = {week}, state_since = {week}")
    disable(postgres, api, "410 Gone")
    assert disabled(postgres, api) == {(api.source.id, ISSUES)}
    assert column(
        postgres,
        "SELECT state || ' ' || state_reason FROM sync_cursors WHERE state_since < now() - interval '7 days'",
    ) == ["disabled 410 Gone"]


def test_dataset_is_switched_on_by_a_complete_walk_and_keeps_its_cursor_until_then(
    postgres: Postgres, api: Seed
) -> None:
    walked(postgres, api, Walk(started_at=NOON))
    disable(postgres, api)
    with postgres.transaction() as tx:
        assert sources.cursor(tx, api.org.id, api.source.id, ISSUES).cursor_at == NOON
    walked(postgres, api, Walk(started_at=NOON + timedelta(days=7)))
    assert disabled(postgres, api) == frozenset()
    assert column(postgres, "SELECT state FROM sync_cursors WHERE state_reason IS NULL AND asked_at IS NULL") == [
        "active"
    ]


def test_dataset_of_another_source_and_another_organisation_is_not_touched(postgres: Postgres, api: Seed) -> None:
    disable(postgres, api)
    with postgres.transaction() as tx:
        other = sources.add_source(tx, api.org.id, "github", "github.com", "acme/web", "43")
        rival = sources.add_org(tx, "rival", "UTC")
        assert sources.resting_datasets(tx, api.org.id, [other.id]) == frozenset()
        assert sources.resting_datasets(tx, rival.id, [api.source.id]) == frozenset()


def test_dataset_of_a_source_that_was_removed_is_not_written(postgres: Postgres, api: Seed) -> None:
    with postgres.transaction() as tx:
        sources.remove_source(tx, api.source)
    disable(postgres, api)
    assert column(postgres, "SELECT count(*) FROM sync_cursors") == [0]


def test_run_whose_only_dataset_is_switched_off_has_no_batch_and_ends(postgres: Postgres) -> None:
    made = seed(postgres)
    with postgres.transaction() as tx:
        sources.disable_dataset(tx, made.org.id, made.source.id, "commits", "410 Gone")
    run_id = manual_run(postgres, made)
    column(postgres, "UPDATE sync_runs SET trigger = 'schedule' WHERE id = :id RETURNING 1", id=run_id)
    assert plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=10) == 1
    assert finish.run(postgres, run_id, lease_seconds=60) == "succeeded"
    assert column(postgres, "SELECT count(*) FROM sync_batches") == [0]
