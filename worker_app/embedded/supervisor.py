"""The supervisor of one `up`: starts the stores and every role, starts again what dies, and stops all of it in time.

It runs in the foreground of one process that holds the folder's lock. What it started is on record, so that a supervisor
that was killed leaves nothing that the next one cannot find and stop.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from signal import SIGKILL, SIGTERM

import psutil

from worker_app.embedded import process
from worker_app.embedded.folder import EmbeddedStoreError, Folder, ProcessRecord, State, is_alive, stop_leftovers
from worker_app.embedded.stores import StoreAddresses, Stores

READY_SECONDS = 60.0  # for all roles to take work; on two slow cores six interpreters start at once
ROLE_STOP_SECONDS = 6.0  # the stores need the rest of the ten seconds that Ctrl-C may take
SILENCE_SECONDS = 120.0  # above any legitimate block; a healthy role shows itself every five seconds
CALM_SECONDS = 60.0  # a role that ran this long starts again at once
LONGEST_PAUSE_SECONDS = 30.0
LOOK_SECONDS = 0.1
STORE_NAMES = ("postgres", "valkey")


@dataclass(frozen=True, slots=True)
class Role:
    """One process of the service, and how to see that it takes work."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    port: int | None
    is_ready: Callable[[], bool]
    sign_of_life: Path | None = None  # a file that the role touches every few seconds


@dataclass(slots=True)
class _Running:
    role: Role
    child: psutil.Popen
    started_at: float  # monotonic
    failures: int = 0
    again_at: float | None = None  # monotonic; when the dead role is started again


class Supervisor:
    """Everything of one folder. `report` gets one line whenever something changed that a person wants to know."""

    def __init__(self, folder: Folder, stores: Stores, report: Callable[[str], None]) -> None:
        self._folder = folder
        self._stores = stores
        self._report = report
        self._running: dict[str, _Running] = {}
        self._addresses: Mapping[str, str] = {}
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")

    def start_stores(self) -> StoreAddresses:
        """Stop what a killed `up` left, then start or adopt the stores. Raises EmbeddedStoreError."""
        for left in clear_leftovers(self._folder, keep_stores=True):
            self._report(f"stopped {left.name} (pid {left.pid}), left by an earlier `up`")
        addresses = self._stores.start()
        self._record()
        return addresses

    def start_roles(self, roles: Sequence[Role], addresses: Mapping[str, str]) -> None:
        """Start every role and wait until each takes work. Raises EmbeddedStoreError with the log of one that does not."""
        self._addresses = addresses
        for role in roles:
            self._running[role.name] = self._spawn(role)
        self._record()
        deadline = time.monotonic() + READY_SECONDS
        waiting = list(self._running.values())
        while waiting := [item for item in waiting if not self._is_ready(item)]:
            for item in waiting:
                if not is_alive(item.child) or time.monotonic() >= deadline:
                    log = self._log(item.role)
                    why = "ended" if not is_alive(item.child) else f"was not ready in {READY_SECONDS:.0f} s"
                    raise EmbeddedStoreError(f"{item.role.name} {why}; the end of {log}:\n{process.last_lines(log)}")
            time.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Start again what has died, each time after a longer pause; call it often."""
        self._keep_stores()
        changed = False
        for item in list(self._running.values()):
            if is_alive(item.child):
                self._end_if_stuck(item)
                continue
            now = time.monotonic()
            if item.again_at is None:
                item.failures = 0 if now - item.started_at > CALM_SECONDS else item.failures + 1
                pause = min(LONGEST_PAUSE_SECONDS, 2.0**item.failures - 1)
                item.again_at = now + pause
                self._report(f"{item.role.name} ended ({item.child.returncode}); starting it again in {pause:.0f} s")
            elif now >= item.again_at:
                fresh = self._spawn(item.role)
                fresh.failures = item.failures
                self._running[item.role.name] = fresh
                changed = True
        if changed:
            self._record()

    def stop(self) -> None:
        """Ask every role to end, kill what does not in time, stop the stores, forget the record. Idempotent."""
        children: list[psutil.Process] = [item.child for item in self._running.values()]
        family: set[psutil.Process] = set()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                family.update(child.children(recursive=True))
        try:
            process.stop(children, ((SIGTERM, ROLE_STOP_SECONDS), (SIGKILL, 1.0)))
            process.stop(family, ((SIGKILL, 1.0),))
        finally:
            self._running.clear()
            self._stores.stop()
            # Interrupted before it adopted what a killed `up` left, it must not forget that either.
            clear_leftovers(self._folder, keep_stores=False)
            self._folder.clear_state()

    @staticmethod
    def _is_ready(item: _Running) -> bool:
        port = item.role.port
        return (port is None or process.listens(item.child, port)) and item.role.is_ready()

    def _end_if_stuck(self, item: _Running) -> None:
        """Kill a role that runs and shows no sign of life: it is started again, and another takes its work over."""
        sign = item.role.sign_of_life
        if sign is None or time.monotonic() - item.started_at < SILENCE_SECONDS:
            return
        with contextlib.suppress(FileNotFoundError):
            silence = time.time() - sign.stat().st_mtime
            if silence > SILENCE_SECONDS:
                self._report(f"{item.role.name} has shown no sign of life for {silence:.0f} s; killing it")
                item.child.kill()

    def _keep_stores(self) -> None:
        for store in (self._stores.postgres, self._stores.valkey):
            if not store.is_running():
                self._report(f"{type(store).__name__} ended; starting it again")
                store.start()
                self._record()

    def _spawn(self, role: Role) -> _Running:
        log = self._log(role)
        child = process.spawn(role.argv, log=log, directory=self._folder.path, environment=role.environment)
        return _Running(role, child, time.monotonic())

    def _log(self, role: Role) -> Path:
        return self._folder.log / f"{role.name}.log"

    def _record(self) -> None:
        stores = [
            ProcessRecord(name, store.pid, psutil.Process(store.pid).create_time(), store.port)
            for name, store in (("postgres", self._stores.postgres), ("valkey", self._stores.valkey))
        ]
        roles = []
        for item in self._running.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                roles.append(ProcessRecord(item.role.name, item.child.pid, item.child.create_time(), item.role.port))
        own = psutil.Process()
        self._folder.write_state(
            State(
                supervisor_pid=own.pid,
                processes=(*stores, *roles),
                addresses=dict(self._addresses),
                started_at=self._started_at,
            )
        )


def clear_leftovers(folder: Folder, *, keep_stores: bool) -> tuple[ProcessRecord, ...]:
    """Stop what a killed `up` left running, with or without its stores; returns what it stopped. The caller has the lock."""
    state = folder.read_state()
    if state is None:
        return ()
    wanted = tuple(item for item in state.processes if not (keep_stores and item.name in STORE_NAMES))
    return stop_leftovers(State(state.supervisor_pid, wanted, state.addresses, state.started_at))
