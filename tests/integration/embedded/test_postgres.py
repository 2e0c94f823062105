import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2
import psycopg2.extensions
import pytest

from worker_app.embedded.folder import EmbeddedStoreError
from worker_app.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.integration

PASSWORD = "p@ss 'w\\ord/:"
MakePostgres = Callable[..., EmbeddedPostgres]
Ask = Callable[[EmbeddedPostgres, str], str]
START_AND_DIE = """
from pathlib import Path
from worker_app.embedded.postgres import EmbeddedPostgres
postgres = EmbeddedPostgres(Path({folder!r}), password={password!r}, durable=False)
postgres.start()
print(postgres.pid, postgres.port)
"""


def connect(postgres: EmbeddedPostgres) -> psycopg2.extensions.connection:
    made = psycopg2.connect(postgres.dsn.replace("+psycopg2", ""))
    made.autocommit = True
    return made


def data(folder: Path) -> Path:
    return (folder / "postgres").resolve() / "data"


def test_postgres_answers_at_its_dsn(reopen: MakePostgres, ask: Ask) -> None:
    postgres = reopen()
    postgres.start()
    assert ask(postgres, "SELECT current_user || ' ' || current_database()") == "devhops devhops"
    assert ask(postgres, "SHOW server_encoding") == "UTF8"
    assert ask(postgres, "SHOW timezone") == "UTC"
    assert (
        ask(postgres, "SELECT datlocale || ' ' || datcollate FROM pg_database WHERE datname = 'devhops'") == "C.UTF-8 C"
    )
    assert ask(postgres, "SHOW fsync") == "off"


def test_postgres_durable_waits_for_the_disk(reopen: MakePostgres, ask: Ask) -> None:
    postgres = reopen(durable=True)
    postgres.start()
    assert [ask(postgres, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")] == ["on"] * 3


def test_postgres_refuses_another_password(reopen: MakePostgres) -> None:
    postgres = reopen()
    postgres.start()
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(host="127.0.0.1", port=postgres.port, user="devhops", password="guess", dbname="devhops")


def test_postgres_listens_on_loopback_alone(reopen: MakePostgres) -> None:
    postgres = reopen()
    postgres.start()
    listening = psutil.Process(postgres.pid).net_connections(kind="tcp")
    assert {(found.laddr.ip, found.laddr.port) for found in listening} == {("127.0.0.1", postgres.port)}


def test_postgres_tells_its_password_to_no_process_list(
    make_postgres: MakePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[Sequence[str]] = []
    start = subprocess.Popen.__init__

    def record(self: object, command: Sequence[str], **options: object) -> None:
        commands.append(command)
        start(self, command, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess.Popen, "__init__", record)
    postgres = make_postgres(password="unmistakable")
    postgres.start()
    assert {"initdb", "postgres", "psql"} <= {Path(command[0]).name for command in commands}
    assert "unmistakable" not in str(commands)
    assert "unmistakable" not in str(psutil.Process(postgres.pid).environ())
    assert "unmistakable" not in (tmp_path / "up" / "log" / "postgres.log").read_text()
    assert not (data(tmp_path / "up").parent / "password").exists()


def test_postgres_keeps_its_data_and_its_wanted_port(reopen: MakePostgres, ask: Ask) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    postgres = reopen(port=port)
    postgres.start()
    ask(postgres, "CREATE TABLE kept ()")
    postgres.stop()
    postgres.start()
    assert ask(postgres, "SELECT to_regclass('kept')") == "kept"
    assert postgres.port == port


def test_postgres_start_and_stop_are_idempotent(reopen: MakePostgres) -> None:
    postgres = reopen()
    postgres.start()
    pid = postgres.pid
    postgres.start()
    assert postgres.pid == pid
    postgres.stop()
    postgres.stop()
    assert not postgres.is_running()
    assert not psutil.pid_exists(pid)


def test_postgres_stop_does_not_wait_for_clients(reopen: MakePostgres, shared: Path) -> None:
    postgres = reopen()
    postgres.start()
    log = shared / "log" / "postgres.log"
    before = len(log.read_text())
    with closing(connect(postgres)) as client, client.cursor() as cursor:
        cursor.execute("BEGIN")
        postgres.stop()
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("SELECT 1")
    said = log.read_text()[before:]
    assert "received fast shutdown request" in said
    assert "received smart shutdown request" not in said


def test_postgres_has_no_address_before_start(make_postgres: MakePostgres) -> None:
    with pytest.raises(EmbeddedStoreError, match="not been started"):
        _ = make_postgres().dsn


def test_postgres_takes_another_port_when_the_wanted_is_taken(
    reopen: MakePostgres, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        postgres = reopen(port=taken)
        postgres.start()
        assert postgres.port != taken
    assert f"wanted={taken}" in caplog.text


def test_postgres_tries_another_port_when_it_loses_the_race(
    reopen: MakePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as listener, socket.socket() as probe:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        probe.bind(("127.0.0.1", 0))
        ports = [listener.getsockname()[1], probe.getsockname()[1]]
        probe.close()
        remaining = iter(ports)
        monkeypatch.setattr("worker_app.embedded.postgres.free_port", lambda _: next(remaining))
        postgres = reopen()
        postgres.start()
        assert postgres.port == ports[1]


def test_postgres_is_adopted_when_its_owner_was_killed(
    reopen: MakePostgres, run_and_die: Callable[[str], str], shared: Path, ask: Ask
) -> None:
    said = run_and_die(START_AND_DIE.format(folder=str(shared), password=PASSWORD))
    postgres = reopen(port=1)
    postgres.start()
    assert f"{postgres.pid} {postgres.port}" == said
    assert ask(postgres, "SELECT 1") == "1"
    postgres.stop()
    assert not postgres.is_running()


def test_postgres_is_not_adopted_with_another_password(
    reopen: MakePostgres, run_and_die: Callable[[str], str], shared: Path
) -> None:
    pid = int(run_and_die(START_AND_DIE.format(folder=str(shared), password=PASSWORD)).split()[0])
    postgres = reopen(password="second")
    with pytest.raises(EmbeddedStoreError, match=r"another password.*secrets\.json") as caught:
        postgres.start()
    assert "second" not in str(caught.value)
    assert not postgres.is_running()
    owner = reopen()
    owner.start()
    assert owner.pid == pid


def test_postgres_stopped_does_not_start_with_another_password(reopen: MakePostgres, ask: Ask) -> None:
    postgres = reopen(password="second")
    with pytest.raises(EmbeddedStoreError, match="another password"):
        postgres.start()
    right = reopen()
    right.start()
    assert ask(right, "SELECT 1") == "1"


def test_postgres_recovers_when_killed_under_a_busy_client(reopen: MakePostgres, ask: Ask) -> None:
    postgres = reopen(durable=True)
    postgres.start()
    ask(postgres, "CREATE TABLE killed ()")
    busy = connect(postgres)
    backend = psutil.Process(busy.get_backend_pid())

    def work() -> None:
        # A backend that computes does not see that its server is gone, and would keep the data locked.
        with pytest.raises(psycopg2.Error), busy.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000000) b")

    client = threading.Thread(target=work)
    client.start()
    with closing(connect(postgres)) as watcher, watcher.cursor() as cursor:
        active = False
        while not active:
            cursor.execute("SELECT state = 'active' FROM pg_stat_activity WHERE pid = %s", [backend.pid])
            active = bool((cursor.fetchone() or [False])[0])
    psutil.Process(postgres.pid).kill()
    os.waitid(os.P_PID, postgres.pid, os.WEXITED | os.WNOWAIT)
    assert backend.is_running()
    postgres.start()
    assert ask(postgres, "SELECT to_regclass('killed')") == "killed"
    client.join(timeout=10)
    assert not client.is_alive()
    busy.close()


def test_postgres_believes_no_stale_pid_file(reopen: MakePostgres, shared: Path, open_folder: Path, ask: Ask) -> None:
    postgres = reopen()
    postgres.start()
    ask(postgres, "CREATE TABLE stale ()")
    pid_file = data(shared) / "postmaster.pid"
    lines = pid_file.read_text().splitlines()
    owner = pid_file.stat()
    postgres.stop()
    # Of the server's own user, so that Postgres by itself would take it for a server, and with its name.
    program = shutil.copy("/bin/sleep", open_folder / "postgres")
    stranger = subprocess.Popen([program, "60"], user=owner.st_uid)
    pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
    os.chown(pid_file, owner.st_uid, owner.st_gid)
    try:
        postgres.start()
        assert ask(postgres, "SELECT to_regclass('stale')") == "stale"
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_postgres_that_cannot_start_says_why(reopen: MakePostgres, shared: Path) -> None:
    config = data(shared) / "postgresql.conf"
    right = config.read_text()
    config.write_text(f"{right}nonsense = on\n")
    postgres = reopen()
    try:
        with pytest.raises(EmbeddedStoreError, match=r'(?s)postgres\.log.*parameter "nonsense"'):
            postgres.start()
    finally:
        config.write_text(right)
    assert not postgres.is_running()
