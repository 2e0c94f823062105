"""Real processes of the service for tests: started with a built environment, watched with deadlines, always ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.command_line import replaced

T = TypeVar("T")
DEADLINE = 30.0
DEV_HOPS = str(Path(sys.executable).parent / "dev-hops")
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.25


def wait_for(look: Callable[[], T | None], what: str, deadline_seconds: float = DEADLINE) -> T:
    """What `look` gives as soon as it is true; raises AssertionError with `what` when the time is over.

    A look takes from the processor what it waits for: the pause between two grows to a twentieth of the wait so far.
    """
    began = time.monotonic()
    while (waited := time.monotonic() - began) < deadline_seconds:
        if found := look():
            return found
        time.sleep(min(max(SHORTEST_PAUSE, waited / 20), LONGEST_PAUSE))
    raise AssertionError(f"{what}: not within {deadline_seconds:.0f} s")


@dataclass(frozen=True, slots=True)
class Service:
    """What the processes of one test share: stores, folders, short times."""

    folder: Path
    database_url: str
    redis_url: str
    program: tuple[str, ...] = (DEV_HOPS,)  # what the arguments of a process are given to

    def environment(self, name: str, **changes: str) -> dict[str, str]:
        """The whole environment of one process; nothing of this machine's settings comes through."""
        return {
            "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
            "HOME": str(self.folder),
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis_url,
            "DEV_HOPS_DIR": str(self.folder / "none"),
            "RUN_DIR": str(self.folder / "run" / name),
            "GIT_MIRRORS_DIR": str(self.folder / "mirrors"),
            "GIT_ALLOW_FILE": "true",
            "METRICS_PORT": "0",
            "LOG_FORMAT": "text",
            "OUTBOX_POLL_SECONDS": "1",
            "BATCH_LEASE_SECONDS": "2",
            "RESCUE_INTERVAL_SECONDS": "1",
            "DISPATCH_INTERVAL_SECONDS": "1",
            "SCHEMA_WAIT_SECONDS": "1",
            **changes,
        }

    def command(self, name: str, *arguments: str, **changes: str) -> tuple[list[str], dict[str, str]]:
        """The command line of one process, and its environment.

        What `dev-hops` would replace itself by stands in its place: a start of Python less for the same process.
        """
        environment = self.environment(name, **changes)
        if self.program == (DEV_HOPS,) and (made := replaced(*arguments, environment=environment)):
            return made.argv, made.environment
        return [*self.program, *arguments], environment

    def log(self, name: str) -> str:
        """What a process has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @contextmanager
    def running(self, name: str, *arguments: str, **changes: str) -> Iterator["subprocess.Popen[bytes]"]:
        """One role by its command line, for example `running("w", "worker", "--fleet", "worker")`."""
        command, environment = self.command(name, *arguments, **changes)
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=DEADLINE)

    def wait_ready(self, name: str, process: "subprocess.Popen[bytes]") -> None:
        """Wait until a worker takes work; fails with its log when it ends instead."""

        def look() -> bool:
            assert process.poll() is None, self.log(name)
            return (self.folder / "run" / name / "worker.ready").exists()

        wait_for(look, f"{name} is ready")
