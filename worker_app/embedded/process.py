"""Running the programs of a store: once and waited for, or as a server that outlives the call.

Each child has a session of its own, so that Ctrl-C in the terminal reaches the supervisor alone, and an environment built
here. Processes are found by the folder they work in, since names and pids come round again.
"""

import contextlib
import errno
import os
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from signal import Signals

import psutil

from worker_app.embedded.account import Account
from worker_app.embedded.folder import EmbeddedStoreError, is_alive, wait_for_end

_RUN_SECONDS = 60.0
_TAIL_BYTES = 16_384
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def run(
    command: Sequence[str],
    *,
    account: Account | None = None,
    directory: Path = Path("/"),
    text: str = "",
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end with `text` on its standard input and return what it said, whatever its exit code.

    Raises EmbeddedStoreError when it takes over 60 s or root may not become the account, and OSError when it cannot run.
    """
    try:
        return subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_RUN_SECONDS,
            cwd=directory,
            env=_ENVIRONMENT | dict(environment or {}),
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    except subprocess.TimeoutExpired as error:
        raise EmbeddedStoreError(
            f"{command[0]} did not end within {_RUN_SECONDS:.0f} s; try again when the machine is less busy"
        ) from error
    except OSError as error:
        if account and error.errno == errno.EPERM:
            raise EmbeddedStoreError(
                f"root may not become user {account.name} here, and Postgres refuses to run as root; start as an ordinary user"
            ) from error
        raise


def spawn(
    command: Sequence[str],
    *,
    log: Path,
    directory: Path,
    account: Account | None = None,
    environment: Mapping[str, str] | None = None,
) -> psutil.Popen:
    """Start a program that stays, its output appended to `log` (mode 0600 when new). It sees `environment` and no other."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        return psutil.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            cwd=directory,
            env=_ENVIRONMENT if environment is None else dict(environment),
            start_new_session=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
            extra_groups=[] if account else None,
        )
    finally:
        os.close(descriptor)


def stop(processes: Iterable[psutil.Process], steps: Sequence[tuple[Signals, float]]) -> None:
    """Send each signal in turn to those that still run and wait its seconds; return when all have ended.

    Raises EmbeddedStoreError when one outlives the last step.
    """
    left = [process for process in processes if is_alive(process)]
    for signal, seconds in steps:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal)
        left = wait_for_end(left, seconds)
    if left:
        raise EmbeddedStoreError(f"process {left[0].pid} does not end, not even when killed; it may wait for a disk")


def working_in(folder: Path, names: Collection[str]) -> list[psutil.Process]:
    """The processes of these program names whose working directory is `folder` (resolved) or below it."""
    found = []
    for process in psutil.process_iter(["name"]):
        if process.info["name"] in names:
            # Those of other users do not tell; ours do.
            with contextlib.suppress(psutil.Error):
                if Path(process.cwd()).is_relative_to(folder):
                    found.append(process)
    return found


def listens(process: psutil.Process, port: int) -> bool:
    """Whether the process itself, or a child of it, listens on a TCP port: an answer from there may be another program's."""
    with contextlib.suppress(psutil.Error):
        return any(
            connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
            for member in (process, *process.children(recursive=True))
            for connection in member.net_connections("tcp")
        )
    return False


def last_lines(log: Path, *, since_bytes: int = 0, count: int = 12) -> str:
    """The end of a log, looking only at what was written after its first `since_bytes`."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(since_bytes, size_bytes(log) - _TAIL_BYTES))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-count:])


def size_bytes(log: Path) -> int:
    """How long a log is now; 0 when there is none."""
    return log.stat().st_size if log.exists() else 0
