import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.clickhouse.address import PASSWORD
from tests.clickhouse.running import ClickHouse as Front
from tests.integration.providers.certificates import own_certificate
from tests.web_server import Seen, WebServer, Written
from worker_app import errors
from worker_app.store import clickhouse as clickhouse_store
from worker_app.store.clickhouse import ClickHouse

AT = datetime(2026, 3, 29, 1, 30, 0, 123000, tzinfo=UTC)
COLUMNS = {"name": "String", "at": "Nullable(DateTime64(3, 'UTC'))"}
TWENTY_WAITS = """
from gevent import monkey
monkey.patch_all()
import sys, time
import gevent
from worker_app.store import clickhouse

client = clickhouse.connect(sys.argv[1])
client.query("SELECT 1")
longest, last = 0.0, time.monotonic()

def tick():
    global longest, last
    while True:
        gevent.sleep(0.02)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()

ticker = gevent.spawn(tick)
began = time.monotonic()
waiting = [gevent.spawn(client.query, "SELECT 'slow'") for _ in range(20)]
gevent.joinall(waiting, raise_error=True)
assert [each.value for each in waiting] == [[("slow",)]] * 20
print(time.monotonic() - began, longest)
"""


@pytest.fixture
def client(clickhouse: Front, empty_clickhouse_url: str) -> Iterator[ClickHouse]:
    opened = clickhouse_store.connect(empty_clickhouse_url)
    opened.create_database()
    opened.command("CREATE TABLE t (name String, at Nullable(DateTime64(3, 'UTC'))) ENGINE = MergeTree ORDER BY name")
    clickhouse.forget()
    yield opened
    opened.close()


@pytest.mark.integration
def test_rows_come_back_with_aware_times_and_odd_text(client: ClickHouse) -> None:
    rows = [("a'\\ \n{x:String} %s", AT), ("b", None)]
    client.insert("t", COLUMNS, rows)
    assert (
        client.query("SELECT * FROM t WHERE name IN {names:Array(String)} ORDER BY name", {"names": [rows[0][0], "b"]})
        == rows
    )


@pytest.mark.integration
def test_insert_is_one_statement(client: ClickHouse, clickhouse: Front) -> None:
    client.query("SELECT 1")
    clickhouse.forget()
    client.insert("t", COLUMNS, [(f"row {number}", AT) for number in range(5000)])
    client.insert("t", COLUMNS, [])
    assert len(clickhouse.asked()) == 1
    assert client.query("SELECT count() FROM t") == [(5000,)]


@pytest.mark.integration
def test_database_is_created_once_and_only_where_it_is_missing(clickhouse: Front, empty_clickhouse_url: str) -> None:
    client = clickhouse_store.connect(empty_clickhouse_url)
    client.create_database()
    clickhouse.forget()
    client.create_database()
    assert not [statement for statement in clickhouse.asked() if "CREATE" in statement]
    client.close()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"kind": "unavailable"}, errors.StoreAway),
        ({"kind": "drop"}, errors.StoreAway),
        ({"kind": "lose"}, errors.StoreAway),
        *(({"kind": "code", "code": code}, errors.StoreAway) for code in (159, 202, 209, 210, 241, 242, 252, 319)),
        *(({"kind": "code", "code": code}, errors.StoreRefused) for code in (16, 60, 62, 497, 516)),
    ],
)
def test_refusals_are_told_apart(
    client: ClickHouse, clickhouse: Front, fault: dict[str, Any], kind: type[errors.DevHopsError]
) -> None:
    with clickhouse.failing(**fault):
        with pytest.raises(kind) as asking:
            client.query("SELECT 1")
        with pytest.raises(kind) as writing:
            client.insert("t", COLUMNS, [("a", AT)])
    for caught in (asking, writing):
        assert PASSWORD not in str(caught.value)
        assert str(fault.get("code", "")) in str(caught.value)
    assert client.query("SELECT 1") == [(1,)]


@pytest.mark.integration
def test_refusal_has_the_code_of_clickhouse(client: ClickHouse) -> None:
    with pytest.raises(errors.StoreRefused, match="UNKNOWN_TABLE") as caught:
        client.query("SELECT * FROM nowhere")
    assert caught.value.code == 60


@pytest.mark.integration
def test_value_that_does_not_fit_its_column_is_a_fault_of_ours_and_nothing_is_written(client: ClickHouse) -> None:
    with pytest.raises(ValueError, match="not a number"):
        client.insert("t", {"name": "UInt8"}, [("not a number",)])
    assert client.query("SELECT count() FROM t") == [(0,)]


@pytest.mark.integration
def test_certificate_that_nobody_signed_ends_the_call_before_the_password_is_sent(tmp_path: Path) -> None:
    with WebServer(lambda _: Written(), own_certificate(tmp_path)[0]).running() as server:
        client = clickhouse_store.connect(f"https://u:canary@127.0.0.1:{server.port}/d")
        with pytest.raises(errors.StoreAway, match="certificate"):
            client.query("SELECT 1")
        client.close()
    assert server.seen == []


@pytest.mark.integration
def test_wrong_password_names_the_remedy_and_not_the_password(empty_clickhouse_url: str) -> None:
    client = clickhouse_store.connect(empty_clickhouse_url.replace("@", "canary@"))
    with pytest.raises(errors.StoreRefused, match="CLICKHOUSE_URL") as caught:
        client.query("SELECT 1")
    assert "canary" not in str(caught.value)
    assert "canary" not in repr(client.address)
    client.close()


@pytest.mark.integration
def test_port_where_nobody_listens_is_a_store_that_is_away() -> None:
    client = clickhouse_store.connect("http://u:canary@127.0.0.1:1/metrics")
    with pytest.raises(errors.StoreAway) as caught:
        client.query("SELECT 1")
    assert "canary" not in str(caught.value)
    client.close()


@pytest.mark.integration
def test_server_that_says_nothing_is_left_at_the_deadline(
    client: ClickHouse, clickhouse: Front, empty_clickhouse_url: str
) -> None:
    hasty = clickhouse_store.connect(empty_clickhouse_url, call_seconds=1)
    hasty.query("SELECT 1")
    with clickhouse.failing("delay", matching="SELECT 2", seconds=25), pytest.raises(errors.StoreAway):
        hasty.query("SELECT 2")
    hasty.close()


@pytest.mark.integration
def test_statement_that_takes_too_long_is_ended_by_the_server(clickhouse: Front, empty_clickhouse_url: str) -> None:
    hasty = clickhouse_store.connect(empty_clickhouse_url.rpartition("/")[0] + "/default", call_seconds=2)
    with pytest.raises(errors.StoreAway):
        hasty.query("SELECT sleepEachRow(0.05) FROM numbers(1000) SETTINGS max_block_size = 1")
    assert clickhouse.query("SELECT 1") == "1"  # it would wait behind the statement
    hasty.close()


@pytest.mark.integration
@pytest.mark.parametrize(
    ("status", "kind"),
    [(502, errors.StoreAway), (429, errors.StoreAway), (404, errors.StoreRefused), (301, errors.StoreAway)],
)
def test_web_server_that_is_no_clickhouse_is_told(status: int, kind: type[errors.DevHopsError]) -> None:
    def respond(_: Seen) -> Written:
        return Written(status, b"<html>", {"Location": "http://127.0.0.1:1/"})

    with WebServer(respond).running() as server:
        client = clickhouse_store.connect(f"http://u:canary@127.0.0.1:{server.port}/metrics")
        with pytest.raises(kind):
            client.query("SELECT 1")
        client.close()


@pytest.mark.integration
def test_away_at_first_is_no_matter_later(clickhouse: Front, empty_clickhouse_url: str, client: ClickHouse) -> None:
    late = clickhouse_store.connect(empty_clickhouse_url)
    with clickhouse.failing("unavailable"), pytest.raises(errors.StoreAway):
        late.query("SELECT 1")
    assert late.query("SELECT 1") == [(1,)]
    late.close()


@pytest.mark.integration
def test_one_client_serves_many_threads(client: ClickHouse) -> None:
    def work(number: int) -> list[tuple[Any, ...]]:
        client.insert("t", COLUMNS, [(f"row {number}", AT)])
        return client.query("SELECT name FROM t WHERE name = {name:String}", {"name": f"row {number}"})

    with ThreadPoolExecutor(10) as threads:
        assert list(threads.map(work, range(30))) == [[(f"row {number}",)] for number in range(30)]


@pytest.mark.integration
def test_twenty_greenlets_wait_for_clickhouse_at_the_same_time(clickhouse: Front) -> None:
    with clickhouse.failing("delay", matching="slow", seconds=1.0):
        done = subprocess.run(
            [sys.executable, "-c", TWENTY_WAITS, clickhouse.database_url("default")],
            capture_output=True, text=True, timeout=25, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seconds, longest_gap = (float(item) for item in done.stdout.split())
    assert seconds < 5.0  # twenty where each holds the hub
    assert longest_gap < 0.9  # one whole wait where each holds the hub
