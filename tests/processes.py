"""Real processes of the service for tests: started with a built environment, watched with deadlines, always ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.worker_process import wait_for as wait_for

DEADLINE = 30.0
DEV_HOPS = str(Path(sys.executable).parent / "dev-hops")


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

    def log(self, name: str) -> str:
        """What a process has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    @contextmanager
    def running(self, name: str, *arguments: str, **changes: str) -> Iterator["subprocess.Popen[bytes]"]:
        """One role by its command line, for example `running("w", "worker", "--fleet", "worker")`."""
        command = [*self.program, *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, env=self.environment(name, **changes), stdout=log, stderr=log, start_new_session=True
            )
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
