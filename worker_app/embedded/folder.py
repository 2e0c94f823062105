"""The folder of one `up`: who holds it, what runs in it, the addresses and passwords it hands out.

Every file is mode 0600 and replaced in one step, so a reader sees the old text or the new one. Only the holder of the
lock writes; anyone who may read the folder may ask. What the processes do is none of its business.
"""

import contextlib
import fcntl
import logging
import os
import secrets
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import TypeVar

import psutil
from pydantic import TypeAdapter, ValidationError

from worker_app import key_ring
from worker_app.errors import PermanentError

logger = logging.getLogger(__name__)

STOP_SECONDS = 8.0
# Long enough for a fast shutdown of Postgres with its checkpoint, and below the 10 s that terminals and init systems wait.

POLL_SECONDS = 0.02
# Between two looks at a process: a start or a stop seems instant, and the look costs nothing yet.

_T = TypeVar("_T")
_MARKER = ".dev-hops"
_LOCK_FILE_BYTES = 128
_CREATE_TIME_SLACK_SECONDS = 2.0
# The kernel counts from boot and the time of boot moves when the clock is set; a pid does not come round within 2 s.


class EmbeddedStoreError(PermanentError):
    """An embedded store or its folder cannot be used; the message names the remedy."""


def _token() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class Secrets:
    """The passwords and the key ring of one folder, made at its first use and stable from then on; the repr shows none."""

    postgres: str = field(default_factory=_token, repr=False)
    valkey: str = field(default_factory=_token, repr=False)
    flower: str = field(default_factory=_token, repr=False)
    api_token: str = field(default_factory=_token, repr=False)
    credential_keys: str = field(default_factory=key_ring.generate, repr=False)


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One process of an `up`; `create_time` (Unix seconds) tells it from a later one with the same pid."""

    name: str
    pid: int
    create_time: float
    port: int | None


@dataclass(frozen=True, slots=True)
class State:
    """What an `up` runs; `addresses` maps a role to its URL, `started_at` is ISO 8601 in UTC."""

    supervisor_pid: int
    processes: tuple[ProcessRecord, ...]
    addresses: Mapping[str, str] = field(repr=False)
    started_at: str


@dataclass(frozen=True, slots=True)
class _Holder:
    pid: int
    create_time: float


_STATE: TypeAdapter[State] = TypeAdapter(State)
_ENVIRONMENT: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])
_SECRETS: TypeAdapter[Secrets] = TypeAdapter(Secrets)
_HOLDER: TypeAdapter[_Holder | None] = TypeAdapter(_Holder | None)


class Folder:
    """One folder of `up`. Construction touches nothing; `prepare` makes it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self._lock_descriptor: int | None = None

    @property
    def log(self) -> Path:
        """Where the output of each process goes, as `NAME.log`."""
        return self.path / "log"

    def prepare(self) -> None:
        """Make the folder with mode 0700, or take an existing one that is empty or ours, whose mode stays as it is.

        Raises EmbeddedStoreError when it holds something else or cannot be written.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not (self.path / _MARKER).exists():
                if next(self.path.iterdir(), None) is not None:
                    raise EmbeddedStoreError(
                        f"{self.path} holds files that are not from dev-hops; name an empty folder, or one that is not there yet"
                    )
                (self.path / _MARKER).touch(mode=0o600)
            self.log.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise EmbeddedStoreError(
                f"{self.path} cannot be used ({error.strerror}); name a folder that this user may write"
            ) from error

    def try_lock(self) -> bool:
        """Take the folder for this process; False when another one holds it. The kernel frees it when the holder dies."""
        if self._lock_descriptor is not None:
            return True
        descriptor = os.open(self.path / "up.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        holder = _Holder(os.getpid(), psutil.Process().create_time())
        _overwrite(descriptor, _HOLDER.dump_json(holder))
        self._lock_descriptor = descriptor
        return True

    def unlock(self) -> None:
        """Give the folder back; nothing happens when this object does not hold it."""
        if self._lock_descriptor is not None:
            _overwrite(self._lock_descriptor, _HOLDER.dump_json(None))
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def holder(self) -> psutil.Process | None:
        """The process that holds the folder; None when nobody does."""
        # Read, not tried: a lock taken only to look would make a start at that very moment fail.
        holder = self._read("up.lock", _HOLDER)
        return running_process(holder.pid, holder.create_time) if holder else None

    def holder_pid(self) -> int | None:
        """The pid of the process that holds the folder; None when nobody does."""
        holder = self.holder()
        return holder.pid if holder else None

    def write_state(self, state: State) -> None:
        """Replace the record of what runs."""
        replace_file(self.path / "state.json", _STATE.dump_json(state, indent=2))

    def read_state(self) -> State | None:
        """What the last `up` recorded; None when there is nothing, or nothing readable, which is logged."""
        return self._read("state.json", _STATE)

    def write_env(self, env: Mapping[str, str]) -> None:
        """Replace the environment that points other programs at this `up`."""
        replace_file(self.path / "env.json", _ENVIRONMENT.dump_json(dict(env), indent=2))

    def read_env(self) -> dict[str, str]:
        """The environment that points at this `up`; empty when there is none, or none readable, which is logged."""
        return self._read("env.json", _ENVIRONMENT) or {}

    def clear_state(self) -> None:
        """Forget what ran and its environment, after an orderly stop."""
        (self.path / "state.json").unlink(missing_ok=True)
        (self.path / "env.json").unlink(missing_ok=True)

    def secrets(self) -> Secrets:
        """The passwords of this folder; those that are missing are made and kept.

        Raises EmbeddedStoreError when the file is damaged: new passwords would lock the old data away.
        """
        path = self.path / "secrets.json"
        stored = path.read_bytes() if path.exists() else b"{}"
        try:
            found = _SECRETS.validate_json(stored)
        except ValidationError:
            # The cause quotes what it could not parse, so it stays out of the trace.
            raise EmbeddedStoreError(
                f"{path} is damaged; restore it, or remove the whole folder to begin with empty stores"
            ) from None
        text = _SECRETS.dump_json(found, indent=2)
        if text != stored:
            replace_file(path, text)
        return found

    def _read(self, name: str, shape: TypeAdapter[_T]) -> _T | None:
        path = self.path / name
        try:
            return shape.validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise EmbeddedStoreError(f"{path} belongs to another user; ask as the one who started it") from error
        except ValidationError as error:
            # Only counted: the error quotes its input, and addresses hold passwords.
            logger.warning("embedded.file_damaged path=%s faults=%d; going on without it", path, error.error_count())
            return None


def stop_leftovers(state: State, *, deadline_seconds: float = STOP_SECONDS) -> tuple[ProcessRecord, ...]:
    """Stop the recorded processes that still run, with their children, and return their records.

    They are asked first and killed at the deadline. A pid that now belongs to a later process is left alone.
    Raises EmbeddedStoreError when a process belongs to another user.
    """
    running = [
        (record, found) for record in state.processes if (found := running_process(record.pid, record.create_time))
    ]
    family: set[psutil.Process] = set()
    try:
        for record, process in running:
            family.add(process)
            with contextlib.suppress(psutil.NoSuchProcess):
                family.update(process.children(recursive=True))
                # SIGTERM makes Postgres wait for its clients to leave; SIGINT is its fast shutdown.
                process.send_signal(SIGINT if record.name == "postgres" else SIGTERM)
        for process in wait_for_end(family, deadline_seconds):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        wait_for_end(family, deadline_seconds)
    except psutil.AccessDenied as error:
        raise EmbeddedStoreError(
            f"process {error.pid} belongs to another user; stop it as the one who started it"
        ) from error
    return tuple(record for record, _ in running)


def wait_for_end(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Wait until the processes have ended, at most these seconds; the ones that still run are returned."""
    deadline = time.monotonic() + seconds
    while (left := [process for process in processes if is_alive(process)]) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return left


def is_alive(process: psutil.Process) -> bool:
    """Whether this very process still runs; one that is dead and only not yet reaped does not."""
    if isinstance(process, psutil.Popen):
        # A child of ours: reaped here, so that it leaves no zombie.
        return process.poll() is None
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def replace_file(path: Path, content: bytes) -> None:
    """Write a file anew in one step, with mode 0600: a reader sees the old content or the new one."""
    # mkstemp makes mode 0600 and a name that nobody could have put a link at.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def running_process(pid: int, create_time: float) -> psutil.Process | None:
    """The process with this pid that began at `create_time` (Unix seconds), while it runs; None for a later one of that pid."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - create_time) <= _CREATE_TIME_SLACK_SECONDS
        return process if same and is_alive(process) else None
    except (psutil.NoSuchProcess, ValueError):
        return None


def _overwrite(descriptor: int, content: bytes) -> None:
    # In place, since the lock is on this very file, and in one step: spaces fill what an older content would leave.
    os.pwrite(descriptor, content.ljust(_LOCK_FILE_BYTES), 0)
