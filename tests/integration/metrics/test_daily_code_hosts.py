from datetime import timedelta
from uuid import uuid4

import pytest

from tests.seed import NOON, commit, execute
from worker_app.metrics import daily
from worker_app.records import Walk
from worker_app.store import records, sources
from worker_app.store.postgres import Postgres
from worker_app.store.postgres_metrics import PostgresMetrics

pytestmark = pytest.mark.integration


def test_commits_of_a_code_host_are_counted_and_a_sha_that_git_brings_too_once_in_the_organisation(
    postgres: Postgres,
) -> None:
    shas, walk = ["a" * 40, "b" * 40], Walk(started_at=NOON + timedelta(days=1))
    with postgres.transaction() as tx:
        org = sources.add_org(tx, "acme", "UTC")
        host = sources.add_source(tx, org.id, "github", "github.com", "acme/api", "2310943199")
        clone = sources.add_source(
            tx, org.id, "git", "github.com", "https://github.com/acme/api", "github.com/acme/api"
        )
        for source in (host, clone):
            page = [commit(sha, repo_ext_id=source.ext_id, author_ext_id="U_1") for sha in shas]
            records.write(tx, source, page, NOON)
            sources.move_cursor(tx, org.id, source.id, "commits", walk)
    run_id = uuid4()
    execute(
        postgres,
        "INSERT INTO sync_runs (id, org_id, kind, trigger, deadline_at) "
        "VALUES (:id, :org, 'metrics', 'manual', now() + interval '1 h')",
        id=run_id,
        org=org.id,
    )
    assert daily.run(postgres, PostgresMetrics(), run_id, lease_seconds=60) == 1
    with postgres.transaction() as tx:
        rows = PostgresMetrics().read(tx, org.id, metrics=["commits", "commit_authors"])
    assert {(row.metric, row.grain_id): row.value for row in rows} == {
        ("commits", "github/github.com/2310943199"): 2,
        ("commits", "git/github.com/acme/api"): 2,
        ("commits", str(org.id)): 2,
        ("commit_authors", "github/github.com/2310943199"): 1,
        ("commit_authors", "git/github.com/acme/api"): 1,
        ("commit_authors", str(org.id)): 1,
    }
    assert {row.coverage for row in rows} == {1.0}
