import os
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker_app.embedded.folder import EmbeddedStoreError
from worker_app.embedded.valkey import EmbeddedValkey

pytestmark = pytest.mark.integration

PASSWORD = 'p@ss "w\\ord/:'
MakeValkey = Callable[..., EmbeddedValkey]
START_AND_DIE = """
from pathlib import Path
from worker_app.embedded.valkey import EmbeddedValkey
valkey = EmbeddedValkey(Path({folder!r}), password={password!r})
valkey.start()
print(valkey.pid, valkey.port)
"""


@pytest.fixture
def make_valkey(tmp_path: Path) -> Iterator[MakeValkey]:
    """Makes a Valkey in one folder of the test; whatever runs there at the end is stopped."""
    made: list[EmbeddedValkey] = []

    def make(
        *, password: str | None = PASSWORD, port: int | None = None, durable: bool = False, name: str = "up"
    ) -> EmbeddedValkey:
        made.append(EmbeddedValkey(tmp_path / name, password=password, port=port, durable=durable))
        return made[-1]

    yield make
    for valkey in made:
        valkey.delete_data()


def is_alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def client(valkey: EmbeddedValkey) -> redis.Redis:
    return redis.Redis.from_url(valkey.url, decode_responses=True)


def test_valkey_answers_at_its_url(make_valkey: MakeValkey) -> None:
    valkey = make_valkey()
    valkey.start()
    with client(valkey) as connection:
        assert connection.ping()
        assert connection.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
        assert connection.config_get("bind")["bind"] == "127.0.0.1"


def test_valkey_refuses_another_password(make_valkey: MakeValkey) -> None:
    valkey = make_valkey()
    valkey.start()
    retry = Retry(NoBackoff(), 0)
    with (
        redis.Redis(port=valkey.port, password="guess", retry=retry) as connection,
        pytest.raises(redis.AuthenticationError),
    ):
        connection.ping()


def test_valkey_keeps_the_password_in_a_closed_file(make_valkey: MakeValkey, tmp_path: Path) -> None:
    valkey = make_valkey(password="unmistakable")
    valkey.start()
    config = tmp_path / "up" / "valkey" / "valkey.conf"
    assert "unmistakable" in config.read_text()
    assert stat.S_IMODE(config.stat().st_mode) == 0o600
    server = psutil.Process(valkey.pid)
    assert "unmistakable" not in " ".join([*server.cmdline(), *server.environ().values()])


def test_valkey_without_password_lets_anyone_in(make_valkey: MakeValkey) -> None:
    valkey = make_valkey(password=None)
    valkey.start()
    assert "@" not in valkey.url
    with client(valkey) as connection:
        assert connection.ping()


def test_valkey_durable_keeps_its_data_when_killed(make_valkey: MakeValkey) -> None:
    valkey = make_valkey(durable=True)
    valkey.start()
    with client(valkey) as connection:
        connection.set("k", "v")
    psutil.Process(valkey.pid).kill()
    os.waitid(os.P_PID, valkey.pid, os.WEXITED | os.WNOWAIT)
    assert not valkey.is_running()
    valkey.start()
    with client(valkey) as connection:
        assert connection.get("k") == "v"


def test_valkey_not_durable_begins_empty(make_valkey: MakeValkey) -> None:
    valkey = make_valkey()
    valkey.start()
    with client(valkey) as connection:
        connection.set("k", "v")
    valkey.stop()
    valkey.start()
    with client(valkey) as connection:
        assert connection.dbsize() == 0


def test_valkey_start_and_stop_are_idempotent(make_valkey: MakeValkey) -> None:
    valkey = make_valkey()
    valkey.start()
    pid = valkey.pid
    valkey.start()
    assert valkey.pid == pid
    valkey.stop()
    valkey.stop()
    assert not valkey.is_running()
    assert not psutil.pid_exists(pid)


def test_valkey_has_no_address_before_start(make_valkey: MakeValkey) -> None:
    with pytest.raises(EmbeddedStoreError, match="not been started"):
        _ = make_valkey().url


def test_valkey_takes_another_port_when_the_wanted_is_taken(
    make_valkey: MakeValkey, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = listener.getsockname()[1]
        valkey = make_valkey(port=taken)
        valkey.start()
        assert valkey.port != taken
    assert f"wanted={taken}" in caplog.text


def test_valkey_tries_another_port_when_it_loses_the_race(
    make_valkey: MakeValkey, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_valkey(name="first"), make_valkey(name="second", port=1)
    first.start()
    ports = iter([first.port, 0])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    monkeypatch.setattr("worker_app.embedded.valkey.free_port", lambda _: next(ports) or free)
    second.start()
    assert second.port == free
    assert second.pid != first.pid


def test_valkey_is_adopted_when_its_owner_was_killed(
    make_valkey: MakeValkey, run_and_die: Callable[[str], str], tmp_path: Path
) -> None:
    said = run_and_die(START_AND_DIE.format(folder=str(tmp_path / "up"), password=PASSWORD))
    valkey = make_valkey()
    valkey.start()
    assert f"{valkey.pid} {valkey.port}" == said
    valkey.stop()
    assert not valkey.is_running()


def test_valkey_left_with_another_password_is_replaced(
    make_valkey: MakeValkey, run_and_die: Callable[[str], str], tmp_path: Path
) -> None:
    said = run_and_die(START_AND_DIE.format(folder=str(tmp_path / "up"), password="old"))
    valkey = make_valkey()
    valkey.start()
    assert str(valkey.pid) != said.split()[0]
    with client(valkey) as connection:
        assert connection.ping()
    assert not is_alive(int(said.split()[0]))


def test_valkey_removed_folder_brings_nothing_back(
    make_valkey: MakeValkey, run_and_die: Callable[[str], str], tmp_path: Path
) -> None:
    said = run_and_die(
        START_AND_DIE.format(folder=str(tmp_path / "up"), password=PASSWORD)
        + "import redis; redis.Redis.from_url(valkey.url).set('k', 'v')"
    )
    shutil.rmtree(tmp_path / "up")
    valkey = make_valkey()
    valkey.start()
    assert str(valkey.pid) != said.split()[0]
    with client(valkey) as connection:
        assert connection.dbsize() == 0


def test_valkey_that_cannot_start_says_why(make_valkey: MakeValkey, tmp_path: Path) -> None:
    valkey = make_valkey(durable=True)
    valkey.start()
    valkey.stop()
    manifest = tmp_path / "up" / "valkey" / "appendonlydir" / "appendonly.aof.manifest"
    manifest.write_text("nonsense\n")
    with pytest.raises(EmbeddedStoreError, match=r"(?s)valkey\.log.*manifest"):
        valkey.start()
    assert not valkey.is_running()
