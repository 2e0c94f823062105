import pytest

from tests.seed import column, execute, manual_run, schedule, seed
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch, plan, prune
from worker_app.sync.prune import Pruned

pytestmark = pytest.mark.integration


def test_old_closed_runs_go_with_their_batches_and_open_ones_stay(postgres: Postgres) -> None:
    made = seed(postgres)
    old = manual_run(postgres, made)
    plan.run(postgres, old, lease_seconds=60, cap=8, max_batches=10)
    execute(postgres, "UPDATE sync_runs SET created_at = now() - interval '100 days'")
    assert prune.run(postgres, days=90) == Pruned(0, 0)  # it is open
    execute(postgres, "UPDATE sync_runs SET state = 'failed', finished_at = now() - interval '91 days'")
    young = manual_run(postgres, made)
    assert prune.run(postgres, days=90) == Pruned(0, 1)
    assert column(postgres, "SELECT id FROM sync_runs") == [young]
    assert column(postgres, "SELECT count(*) FROM sync_batches") == [0]


def test_old_ledger_goes_but_for_the_newest_row_of_each_job(postgres: Postgres) -> None:
    job_id = schedule(postgres, seed(postgres))
    dispatch.tick(postgres, "test")
    execute(
        postgres,
        "INSERT INTO schedule_occurrences (job_id, scheduled_for, org_id, outcome, dispatcher) "
        "SELECT job_id, scheduled_for - number * interval '1 hour' - interval '100 days', org_id, outcome, dispatcher "
        "FROM schedule_occurrences, generate_series(1, 2500) AS number",
    )
    assert prune.run(postgres, days=90) == Pruned(2500, 0)
    execute(postgres, "UPDATE schedule_occurrences SET scheduled_for = now() - interval '1 year'")
    assert prune.run(postgres, days=90) == Pruned(0, 0)
    assert column(postgres, "SELECT job_id FROM schedule_occurrences") == [job_id]
