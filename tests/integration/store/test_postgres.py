import subprocess
import sys
import threading
from contextlib import closing

import pytest

from tests.seed import column, execute
from worker_app import errors
from worker_app.store.postgres import Postgres

SPINE = {  # of the fleet itself: found by ids that nobody can guess, or by names of ours
    "alembic_version", "fleet_state", "org_credentials", "orgs", "run_credentials", "schedule_occurrences", "scheduled_jobs",
    "schema_ledger", "sync_batches", "sync_runs", "task_outbox", "vault_keys",
}  # fmt: skip
TWENTY_SLEEPS = """
from gevent import monkey
monkey.patch_all()
import sys, time
import gevent
from sqlalchemy import text
from worker_app.store.postgres import Postgres, is_hub_safe

postgres = Postgres(sys.argv[1], pool_size=25)
assert is_hub_safe()
with postgres.transaction() as tx:
    tx.execute(text("SELECT 1"))
ticks, longest, last = 0, 0.0, time.monotonic()

def tick():
    global longest, last
    while True:
        gevent.sleep(0.02)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()

def sleep():
    with postgres.transaction() as tx:
        tx.execute(text("SELECT pg_sleep(1)"))

ticker = gevent.spawn(tick)
began = time.monotonic()
gevent.joinall([gevent.spawn(sleep) for _ in range(20)], raise_error=True)
print(time.monotonic() - began, longest)
"""


@pytest.mark.integration
def test_twenty_greenlets_wait_for_postgres_at_the_same_time(database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWENTY_SLEEPS, database_url], capture_output=True, text=True, timeout=25, check=False
    )
    assert done.returncode == 0, done.stderr
    seconds, longest_gap = (float(item) for item in done.stdout.split())
    assert seconds < 4.0  # twenty without the wait callback
    assert longest_gap < 0.9  # one whole query without it


@pytest.mark.integration
def test_error_rolls_everything_back(postgres: Postgres) -> None:
    def work() -> None:
        with postgres.transaction() as tx:
            tx.exec_driver_sql("INSERT INTO fleet_state (key, value) VALUES ('a', 'b')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert column(postgres, "SELECT count(*) FROM fleet_state") == [0]


@pytest.mark.integration
def test_statements_in_a_row_are_committed_one_by_one_and_leave_the_connection_as_it_was(database_url: str) -> None:
    alone, other = Postgres(database_url, pool_size=1), Postgres(database_url, pool_size=1)
    add = "INSERT INTO fleet_state (key, value) VALUES ('{}', 'v')"

    def add_one_and_fail() -> None:
        with alone.statements() as connection:
            connection.exec_driver_sql("SET LOCAL work_mem = '5MB'; " + add.format("kept"))
            assert column(other, "SELECT key FROM fleet_state") == ["kept"]
            assert connection.exec_driver_sql("SHOW work_mem").scalar_one() != "5MB"
            assert connection.exec_driver_sql("SELECT pg_current_xact_id_if_assigned()").scalar_one() is None
            raise ZeroDivisionError

    def add_another_in_a_transaction_and_fail() -> None:
        with alone.transaction() as tx:
            tx.exec_driver_sql(add.format("not kept"))
            raise ZeroDivisionError

    with closing(alone), closing(other):
        for work in (add_one_and_fail, add_another_in_a_transaction_and_fail):
            with pytest.raises(ZeroDivisionError):
                work()
        assert column(other, "SELECT key FROM fleet_state") == ["kept"]


@pytest.mark.integration
def test_server_that_goes_away_between_two_statements_is_a_store_that_is_away(postgres: Postgres) -> None:
    def ask_twice() -> None:
        with postgres.statements() as connection:
            (pid,) = connection.exec_driver_sql("SELECT pg_backend_pid()").one()
            execute(postgres, f"SELECT pg_terminate_backend({pid}, 5000)")
            connection.exec_driver_sql("SELECT 1")

    with pytest.raises(errors.StoreAway):
        ask_twice()
    assert column(postgres, "SELECT 1") == [1]


@pytest.mark.integration
def test_server_that_is_not_there_is_a_store_that_is_away() -> None:
    away = Postgres("postgresql+psycopg2://u:canary@127.0.0.1:1/n", pool_size=1)
    with pytest.raises(errors.StoreAway) as caught, away.transaction():
        pass
    assert "canary" not in str(caught.value)


@pytest.mark.integration
def test_sessions_have_their_limits_and_utc(postgres: Postgres) -> None:
    assert column(postgres, "SELECT current_setting('statement_timeout')") == ["30s"]
    assert column(postgres, "SELECT current_setting('idle_in_transaction_session_timeout')") == ["10s"]
    assert column(postgres, "SELECT current_setting('timezone')") == ["UTC"]


@pytest.mark.integration
def test_pool_is_a_bound_that_cannot_be_passed(database_url: str) -> None:
    small = Postgres(database_url, pool_size=2)
    peak, lock, inside = [0], threading.Lock(), [0]

    def work() -> None:
        with small.transaction() as tx:
            with lock:
                inside[0] += 1
                peak[0] = max(peak[0], inside[0])
            tx.exec_driver_sql("SELECT pg_sleep(0.05)")
            with lock:
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=10)
    small.close()
    assert peak[0] == 2


@pytest.mark.integration
def test_every_key_of_a_tenants_table_begins_with_its_organisation(postgres: Postgres) -> None:
    others = column(
        postgres,
        "SELECT DISTINCT t.relname FROM pg_index i JOIN pg_class t ON t.oid = i.indrelid "
        "JOIN pg_namespace n ON n.oid = t.relnamespace "
        "LEFT JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = i.indkey[0] "
        "WHERE n.nspname = 'public' AND i.indisunique AND a.attname IS DISTINCT FROM 'org_id'",
    )
    assert set(others) <= SPINE


@pytest.mark.integration
def test_no_column_holds_a_time_without_zone(postgres: Postgres) -> None:
    found = column(
        postgres,
        "SELECT table_name || '.' || column_name FROM information_schema.columns "
        "WHERE table_schema = 'public' AND data_type IN ('timestamp without time zone', 'time without time zone')",
    )
    assert found == []


@pytest.mark.integration
def test_deadlock_is_worth_another_try(postgres: Postgres) -> None:
    execute(postgres, "INSERT INTO fleet_state (key, value) VALUES ('a', '1'), ('b', '1')")
    met, faults = threading.Barrier(2), []

    def work(first: str, second: str) -> None:
        try:
            with postgres.transaction() as tx:
                tx.exec_driver_sql(f"UPDATE fleet_state SET value = '2' WHERE key = '{first}'")
                met.wait(10)
                tx.exec_driver_sql(f"UPDATE fleet_state SET value = '2' WHERE key = '{second}'")
        except errors.StoreAway as error:
            faults.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=15)
    assert len(faults) == 1
