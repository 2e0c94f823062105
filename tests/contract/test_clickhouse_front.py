import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID

import clickhouse_connect
import pytest
import requests
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from tests.clickhouse import running
from tests.clickhouse.running import ClickHouse

COLUMNS = {
    "org_id": "UUID",
    "metric": "LowCardinality(String)",
    "grain_id": "String",
    "day": "Date32",
    "definition_v": "UInt16",
    "num": "Float64",
    "n": "UInt64",
    "value": "Nullable(Float64)",
    "coverage": "Float32",
    "input_watermark": "Nullable(DateTime64(3, 'UTC'))",
    "computed_at": "DateTime64(3, 'UTC')",
}
ORG = UUID("11111111-2222-3333-4444-555555555555")
AT = datetime(2026, 3, 29, 1, 30, 0, 123000, tzinfo=UTC)
ODD = 'it\'s a \\ "q" \t\n 名前 \U0001f600 {x:String} %s'
ROWS = [
    (ORG, "commits", ODD, date(2026, 3, 29), 1, 0.1 + 0.2, 2**64 - 1, None, 0.5, None, AT),
    (ORG, "commits", "", date(2149, 6, 6), 65535, -0.0, 0, 1 / 3, 1.0, AT, AT + timedelta(milliseconds=1)),
]


def connected(url: str, **changes: Any) -> Client:
    return clickhouse_connect.get_client(dsn=url, autogenerate_session_id=False, tz_mode="aware", **changes)


@pytest.fixture
def client(clickhouse: ClickHouse, empty_clickhouse_url: str) -> Iterator[Client]:
    clickhouse.query(f"CREATE DATABASE {empty_clickhouse_url.rpartition('/')[2]}")
    opened = connected(empty_clickhouse_url)
    opened.command(
        f"CREATE TABLE t ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())}) "
        "ENGINE = ReplacingMergeTree(computed_at) ORDER BY (org_id, metric, grain_id, day, definition_v)"
    )
    yield opened
    opened.close()


def test_every_type_of_a_metric_row_comes_back_as_it_went(client: Client) -> None:
    summary = client.insert("t", ROWS, list(COLUMNS))
    found = client.query("SELECT * FROM t FINAL ORDER BY day").result_rows
    assert list(found) == ROWS
    assert str(found[1][5]) == "-0.0"
    assert summary.written_rows == 2


@pytest.mark.parametrize("hours", [-5, 0, 9])
def test_times_with_a_zone_keep_their_moment(client: Client, hours: int) -> None:
    row = list(ROWS[0])
    row[-1] = AT.astimezone(timezone(timedelta(hours=hours)))
    client.insert("t", [row], list(COLUMNS))
    found = client.query("SELECT computed_at FROM t WHERE computed_at = {at:DateTime64(3)}", parameters={"at": AT})
    assert found.result_rows == [(AT,)]
    assert found.result_rows[0][0].utcoffset() == timedelta(0)


def test_server_in_another_zone_gives_the_same_moments(tmp_path: Path) -> None:
    with running.running(tmp_path, timezone="America/New_York") as front:
        client = connected(front.database_url("default"))
        client.command("CREATE TABLE t (at DateTime64(3, 'UTC')) ENGINE = MergeTree ORDER BY at")
        client.insert("t", [[AT]], ["at"])
        assert client.query("SELECT serverTimezone(), at FROM t").result_rows == [("America/New_York", AT)]
        client.close()


@pytest.mark.parametrize("value", [ODD, "", "\\N", "a\tb", "'); DROP TABLE t; --"])
def test_bound_parameters_arrive_as_they_are(client: Client, value: str) -> None:
    assert client.query("SELECT {v:String}", parameters={"v": value}).result_rows == [(value,)]


def test_lists_numbers_and_days_can_be_bound(client: Client) -> None:
    given = {"names": ["a'b", "c\\d"], "day": date(2026, 1, 2), "org": ORG, "n": 2**40}
    found = client.query("SELECT {names:Array(String)}, {day:Date}, {org:UUID}, {n:UInt64}", parameters=given)
    assert found.result_rows == [tuple(given.values())]


@pytest.mark.parametrize("name", ["lz4", "zstd", "gzip", False])
def test_both_directions_are_packed_as_the_client_asks(
    client: Client, empty_clickhouse_url: str, name: str | bool
) -> None:
    other = connected(empty_clickhouse_url, compress=name)
    rows = [(*ROWS[0][:2], f"repo-{number}", *ROWS[0][3:]) for number in range(2000)]
    other.insert("t", rows, list(COLUMNS))
    assert other.query("SELECT count(), uniqExact(grain_id) FROM t").result_rows == [(2000, 2000)]
    assert len(other.query("SELECT grain_id FROM t").result_rows) == 2000
    other.close()


def test_reply_is_packed_only_where_it_was_asked_for(clickhouse: ClickHouse) -> None:
    taken = {"Accept-Encoding": "zstd"}
    packed = clickhouse.reply("SELECT 1", headers=taken, enable_http_compression="1")
    assert packed.headers["Content-Encoding"] == "zstd"
    assert "Content-Encoding" not in clickhouse.reply("SELECT 1", headers=taken).headers


@pytest.mark.parametrize(
    ("statement", "code", "status"),
    [
        ("SELECT * FROM nowhere", 60, 404),
        ("SELEC", 62, 400),
        ("SELECT throwIf(1)", 395, 500),
        ("SELECT 1 SETTINGS nonsense = 1", 115, 404),
        ("SELECT sleepEachRow(0.1) FROM numbers(100) SETTINGS max_execution_time = 0.2, max_block_size = 1", 159, 408),
    ],
)
def test_refusal_has_code_and_status(
    client: Client, clickhouse: ClickHouse, statement: str, code: int, status: int
) -> None:
    with pytest.raises(DatabaseError, match=rf"Code: {code}\. DB::Exception") as caught:
        client.command(statement)
    assert caught.value.code == code
    reply = clickhouse.reply(statement)
    assert (reply.status_code, reply.headers["X-ClickHouse-Exception-Code"]) == (status, str(code))


def test_half_a_result_is_not_seen_by_the_next_statement(clickhouse: ClickHouse) -> None:
    with pytest.raises(AssertionError, match="Code: 395"):
        clickhouse.query("SELECT throwIf(number = 5) FROM numbers(10) SETTINGS max_block_size = 1")
    assert clickhouse.query("SELECT 'whole'") == "whole"


def test_database_that_is_missing_and_a_wrong_password_are_told(clickhouse: ClickHouse) -> None:
    with pytest.raises(DatabaseError, match="Code: 81"):
        connected(clickhouse.database_url("nowhere"))
    with pytest.raises(DatabaseError, match="Code: 516"):
        connected(clickhouse.database_url("default").replace("http://", "http://x"))


def test_settings_hold_for_one_statement_alone(client: Client) -> None:
    asked = "SELECT getSetting('max_threads'), {x:UInt8}"
    usual = client.query(asked, parameters={"x": 1}).result_rows
    assert client.query(asked, parameters={"x": 1}, settings={"max_threads": 7}).result_rows == [(7, 1)]
    assert client.query(asked, parameters={"x": 1}).result_rows == usual
    with pytest.raises(DatabaseError, match="Code: 456"):
        client.query("SELECT {x:UInt8}")


def test_get_reads_and_does_not_write(clickhouse: ClickHouse) -> None:
    refused = clickhouse.reply("CREATE TABLE z (a Int8) ENGINE = Memory", "GET")
    assert refused.headers["X-ClickHouse-Exception-Code"] == "164"
    assert clickhouse.reply("SELECT 1", "GET").text == "1\n"
    assert requests.get(f"{clickhouse.url}/ping", timeout=10).text == "Ok.\n"


def test_rows_of_other_formats_go_in(client: Client, clickhouse: ClickHouse, empty_clickhouse_url: str) -> None:
    client.command("CREATE TABLE plain (a UInt32, b Nullable(String)) ENGINE = MergeTree ORDER BY a")
    for rows, name in ((b'{"a":1,"b":"x"}\n', "JSONEachRow"), (b"2\t\\N\n", "TabSeparated"), (b'3,"y"\n', "CSV")):
        client.raw_insert("plain", ["a", "b"], rows, fmt=name)
    client.command("INSERT INTO plain VALUES (4, 'z')")
    client.command("INSERT INTO plain SELECT 5, 'FORMAT Native'")
    assert client.query("SELECT * FROM plain ORDER BY a").result_rows == [
        (1, "x"), (2, None), (3, "y"), (4, "z"), (5, "FORMAT Native"),
    ]  # fmt: skip
    assert client.raw_query("SELECT a FROM plain ORDER BY a LIMIT 2", fmt="JSONEachRow") == b'{"a":1}\n{"a":2}\n'


def test_eight_clients_at_once_lose_nothing(client: Client, empty_clickhouse_url: str) -> None:
    together = threading.Barrier(8)

    def work(number: int) -> int:
        mine = connected(empty_clickhouse_url)
        together.wait(10)
        for turn in range(5):
            mine.insert("t", [(*ROWS[0][:2], f"{number}-{turn}", *ROWS[0][3:])], list(COLUMNS))
            mine.query("SELECT count() FROM t WHERE grain_id = {g:String}", parameters={"g": f"{number}-{turn}"})
        mine.close()
        return number

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(work, range(8))) == list(range(8))
    assert client.query("SELECT count(), uniqExact(grain_id) FROM t").result_rows == [(40, 40)]


def versions(client: Client, *values: float | None) -> None:
    """One insert for each value of one key, each a millisecond newer."""
    for number, value in enumerate(values):
        row = [*ROWS[0][:7], value, 0.5, None, AT + timedelta(milliseconds=number)]
        client.insert("t", [row], list(COLUMNS))


def test_final_gives_the_newest_version_whatever_came_last(client: Client) -> None:
    versions(client, 1.0, 2.0)
    late = [*ROWS[0][:7], 9.0, 0.5, None, AT - timedelta(seconds=1)]
    client.insert("t", [late], list(COLUMNS))
    assert client.query("SELECT count() FROM t").result_rows == [(3,)]
    assert client.query("SELECT value FROM t FINAL").result_rows == [(2.0,)]


def test_argmax_skips_a_retracted_value_and_argmax_of_a_tuple_does_not(client: Client) -> None:
    versions(client, 1.0, None)
    assert client.query("SELECT argMax(value, computed_at) FROM t").result_rows == [(1.0,)]
    assert client.query("SELECT argMax(tuple(value), computed_at).1 FROM t").result_rows == [(None,)]
    assert client.query("SELECT value FROM t FINAL").result_rows == [(None,)]


def test_rows_stay_when_the_front_begins_anew(tmp_path: Path) -> None:
    with running.running(tmp_path) as front:
        front.query("CREATE TABLE t (a Int8) ENGINE = MergeTree ORDER BY a")
        front.query("INSERT INTO t VALUES (7)")
    with running.running(tmp_path) as front:
        assert front.query("SELECT a FROM t") == "7"


def test_faults_happen_as_often_as_they_were_asked_for(client: Client, clickhouse: ClickHouse) -> None:
    with clickhouse.failing("code", matching="SELECT 2", times=1, code=241):
        assert client.query("SELECT 1").result_rows == [(1,)]
        with pytest.raises(DatabaseError, match="Code: 241"):
            client.query("SELECT 2")
        assert client.query("SELECT 2").result_rows == [(2,)]
    with clickhouse.failing("unavailable", matching="INSERT"), pytest.raises(OperationalError, match="503"):
        client.command("INSERT INTO t (grain_id) VALUES ('x')")


@pytest.mark.parametrize(("kind", "rows"), [("drop", 0), ("lose", 2)])
def test_lost_connection_came_before_or_after_the_statement(
    client: Client, clickhouse: ClickHouse, kind: Any, rows: int
) -> None:
    """The client asks once more by itself when nothing was answered: hence two rows where each statement ran."""
    with clickhouse.failing(kind, matching="INSERT"), pytest.raises(OperationalError):
        client.insert("t", [ROWS[0]], list(COLUMNS), column_type_names=list(COLUMNS.values()))
    assert client.query("SELECT count() FROM t").result_rows == [(rows,)]


def test_delay_of_one_statement_holds_no_other(client: Client, clickhouse: ClickHouse) -> None:
    with clickhouse.failing("delay", matching="SELECT 3", seconds=20), ThreadPoolExecutor(1) as threads:
        slow = threads.submit(clickhouse.query, "SELECT 3")
        assert client.query("SELECT 4").result_rows == [(4,)]
        assert not slow.done()
        clickhouse.forget()
        assert slow.result(10) == "3"
