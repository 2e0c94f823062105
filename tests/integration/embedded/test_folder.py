import json
import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from worker_app import key_ring
from worker_app.embedded.folder import (
    EmbeddedStoreError,
    Folder,
    ProcessRecord,
    State,
    stop_leftovers,
)

StartPython = Callable[..., tuple[subprocess.Popen[str], str]]

HOLD_LOCK = """
import sys
from pathlib import Path
from worker_app.embedded.folder import Folder
print(Folder(Path(sys.argv[1])).try_lock(), flush=True)
sys.stdin.read()
"""
WITH_CHILD = """
import signal, subprocess, sys
def end(number, frame):
    print("asked", flush=True)
    sys.exit()
signal.signal(signal.SIGTERM, end)
child = subprocess.Popen([sys.executable, "-c", "import signal; print('up', flush=True); signal.pause()"], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""
DEAF = """
import signal
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, frame: print(signal.Signals(number).name, flush=True))
print("up", flush=True)
while True:
    signal.pause()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path / "up")
    made.prepare()
    return made


@pytest.fixture
def python() -> Iterator[StartPython]:
    """Starts Python code with arguments and waits for its first line, which it returns with the process."""
    children: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
        child = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        children.append(child)
        assert child.stdout
        return child, child.stdout.readline().strip()

    yield start
    for child in children:
        child.kill()
        child.communicate(timeout=10)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def output(child: subprocess.Popen[str]) -> str:
    """What an ended process said after its first line; one that still runs fails the test at the timeout."""
    return child.communicate(timeout=5)[0]


def record(pid: int, *, name: str = "worker", create_time: float | None = None) -> ProcessRecord:
    return ProcessRecord(name, pid, psutil.Process(pid).create_time() if create_time is None else create_time, None)


def state(*records: ProcessRecord) -> State:
    return State(
        supervisor_pid=os.getpid(),
        processes=records,
        addresses={"api": "http://127.0.0.1:8000"},
        started_at="2026-03-01T09:30:00Z",
    )


def test_folder_is_closed_to_others_when_made(folder: Folder) -> None:
    assert mode(folder.path) == 0o700
    assert mode(folder.log) == 0o700


def test_folder_keeps_the_mode_of_an_empty_one_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there").chmod(0o755)
    Folder(tmp_path / "there").prepare()
    assert mode(tmp_path / "there") == 0o755


def test_folder_refuses_one_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(EmbeddedStoreError, match="not from dev-hops"):
        Folder(tmp_path).prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_folder_takes_its_own_again(folder: Folder) -> None:
    folder.write_env({"REDIS_URL": "redis://127.0.0.1"})
    again = Folder(folder.path)
    again.prepare()
    assert again.read_env() == {"REDIS_URL": "redis://127.0.0.1"}


def test_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EmbeddedStoreError, match="cannot be used"):
        Folder(tmp_path / "file").prepare()


def test_lock_has_one_holder(folder: Folder) -> None:
    other = Folder(folder.path)
    assert folder.try_lock()
    assert not other.try_lock()
    folder.unlock()
    assert other.try_lock()
    other.unlock()


def test_lock_tells_its_holder_until_it_is_given_back(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    other = Folder(folder.path)
    assert other.holder_pid() is None
    folder.try_lock()
    assert other.holder_pid() == os.getpid()
    folder.unlock()
    assert other.holder_pid() is None
    assert caplog.records == []


def test_lock_is_free_when_its_holder_is_killed(folder: Folder, python: StartPython) -> None:
    holder, said = python(HOLD_LOCK, str(folder.path))
    assert said == "True"
    assert folder.holder_pid() == holder.pid
    assert not folder.try_lock()
    holder.kill()
    holder.wait(timeout=10)
    assert folder.holder_pid() is None
    assert folder.try_lock()
    folder.unlock()


def test_state_is_read_as_it_was_written(folder: Folder) -> None:
    written = state(ProcessRecord("postgres", 17, 1772357400.25, 5432), ProcessRecord("beat", 18, 1772357401.5, None))
    folder.write_state(written)
    assert folder.read_state() == written
    assert mode(folder.path / "state.json") == 0o600


def test_state_is_none_before_the_first(folder: Folder, caplog: pytest.LogCaptureFixture) -> None:
    assert folder.read_state() is None
    assert caplog.records == []


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[]", b'{"supervisor_pid": "one"}'])
def test_state_damaged_is_reported_and_passed_over(
    folder: Folder, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (folder.path / "state.json").write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert folder.read_state() is None
    assert "state.json" in caplog.text


def test_state_stays_whole_when_the_write_fails(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    folder.write_state(state())
    before = sorted(path.name for path in folder.path.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        folder.write_state(state(ProcessRecord("beat", 18, 1.0, None)))
    assert folder.read_state() == state()
    assert sorted(path.name for path in folder.path.iterdir()) == before


def test_clear_state_forgets_state_and_env(folder: Folder) -> None:
    folder.write_state(state())
    folder.write_env({"A": "b"})
    folder.clear_state()
    assert folder.read_state() is None
    assert folder.read_env() == {}


def test_env_is_closed_to_others(folder: Folder) -> None:
    folder.write_env({"DATABASE_URL": "postgresql+psycopg2://devhops:hidden@127.0.0.1/devhops"})
    assert mode(folder.path / "env.json") == 0o600


def test_secrets_are_stable_distinct_and_closed_to_others(folder: Folder) -> None:
    first = folder.secrets()
    values = {first.postgres, first.valkey, first.flower, first.api_token}
    assert len(values) == 4
    assert min(map(len, values)) >= 32
    assert Folder(folder.path).secrets() == first
    assert mode(folder.path / "secrets.json") == 0o600


def test_secrets_are_not_in_the_repr(folder: Folder) -> None:
    found = folder.secrets()
    assert found.postgres not in repr(found)
    assert found.api_token not in repr(found)


def test_secrets_hold_a_key_ring_that_can_be_used(folder: Folder) -> None:
    found = folder.secrets()
    assert key_ring.parse(found.credential_keys).writes == "k1"
    assert found.credential_keys not in repr(found)


def test_secrets_that_are_new_join_the_old(folder: Folder) -> None:
    first = folder.secrets()
    stored = json.loads((folder.path / "secrets.json").read_text())
    del stored["flower"]
    (folder.path / "secrets.json").write_text(json.dumps(stored))
    second = folder.secrets()
    assert second.postgres == first.postgres
    assert second.flower != first.flower
    assert folder.secrets() == second


def test_secrets_damaged_are_refused_and_not_shown(folder: Folder) -> None:
    (folder.path / "secrets.json").write_text('{"postgres": ["hunter2"]}')
    with pytest.raises(EmbeddedStoreError, match="damaged") as caught:
        folder.secrets()
    assert caught.value.__cause__ is None
    assert "hunter2" not in str(caught.value)
    assert "hunter2" in (folder.path / "secrets.json").read_text()


def test_stop_leftovers_ends_a_process_and_its_children(python: StartPython) -> None:
    parent, said = python(WITH_CHILD)
    child = psutil.Process(int(said))
    recorded = record(parent.pid)
    assert stop_leftovers(state(recorded), deadline_seconds=0.3) == (recorded,)
    assert output(parent) == "asked\n"
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_stop_leftovers_kills_at_the_deadline(python: StartPython) -> None:
    deaf, _ = python(DEAF)
    stop_leftovers(state(record(deaf.pid)), deadline_seconds=0.2)
    assert output(deaf) == "SIGTERM\n"


def test_stop_leftovers_asks_postgres_for_its_fast_shutdown(python: StartPython) -> None:
    server, _ = python(DEAF)
    stop_leftovers(state(record(server.pid, name="postgres")), deadline_seconds=0.2)
    assert output(server) == "SIGINT\n"


def test_stop_leftovers_spares_a_later_process_with_the_same_pid(python: StartPython) -> None:
    later, _ = python(DEAF)
    old = record(later.pid, create_time=psutil.Process(later.pid).create_time() - 60)
    assert stop_leftovers(state(old), deadline_seconds=0.1) == ()
    assert later.poll() is None


def test_stop_leftovers_passes_over_what_has_ended(python: StartPython) -> None:
    ended, _ = python("print('bye')")
    recorded = record(ended.pid)
    ended.communicate(timeout=10)
    assert stop_leftovers(state(recorded)) == ()
