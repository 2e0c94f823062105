"""An embedded Valkey, spoken to as Redis: started, adopted when it still runs, stopped in time.

The password stands in a file of mode 0600 that the server reads, so that no process list shows it. The holder of the
folder's lock is the only caller.
"""

import contextlib
import logging
import re
import shutil
import time
from pathlib import Path
from signal import SIGKILL, SIGTERM
from urllib.parse import quote

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker_app.embedded import binaries, process
from worker_app.embedded.folder import (
    POLL_SECONDS,
    STOP_SECONDS,
    EmbeddedStoreError,
    is_alive,
    replace_file,
)
from worker_app.embedded.ports import free_port

logger = logging.getLogger(__name__)

_PROGRAMS = frozenset({"valkey-server"})
_START_SECONDS = 30.0
_ANSWER_SECONDS = 2.0
_BIND_ATTEMPTS = 3
# A port that was free when looked at may be taken by the time the server binds it.
_STOP = ((SIGTERM, STOP_SECONDS), (SIGKILL, 5.0))


class EmbeddedValkey:
    """One Valkey with its data at `folder/valkey` and its log at `folder/log/valkey.log`.

    `port` is wanted, not promised: the property tells the one that was taken. `durable=False` keeps nothing on disk;
    otherwise a crash of the machine costs the last second. No password: any program of this machine gets in.
    """

    def __init__(self, folder: Path, *, password: str | None, port: int | None = None, durable: bool = True) -> None:
        self._folder = folder.resolve()
        self._data = self._folder / "valkey"
        self._config = self._data / "valkey.conf"
        self._log = self._folder / "log" / "valkey.log"
        self._password = password
        self._wanted_port = port
        self._durable = durable
        self._server: psutil.Process | None = None
        self._port = 0

    @property
    def port(self) -> int:
        """The port on 127.0.0.1. Raises EmbeddedStoreError before `start`."""
        self._started()
        return self._port

    @property
    def pid(self) -> int:
        """The pid of the server. Raises EmbeddedStoreError before `start`."""
        return self._started().pid

    @property
    def url(self) -> str:
        """The URL of database 0, with the password. Raises EmbeddedStoreError before `start`."""
        access = f":{quote(self._password, safe='')}@" if self._password else ""
        return f"redis://{access}127.0.0.1:{self.port}/0"

    def is_running(self) -> bool:
        """Whether the server that `start` started or adopted still runs."""
        return self._server is not None and is_alive(self._server)

    def start(self) -> None:
        """Start the server and wait until it answers, at most 30 s; return at once when it does so already.

        A server of this folder that outlived its owner is adopted with its port, unless it wants another password. Raises
        EmbeddedStoreError with the end of the server's log when it does not come up.
        """
        if self.is_running():
            return
        self.stop()
        program = binaries.valkey_server()
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._data.mkdir(mode=0o700, exist_ok=True)
            if not self._adopt():
                process.stop(process.working_in(self._data, _PROGRAMS), _STOP)
                self._launch(program)
        except OSError as error:
            raise EmbeddedStoreError(f"Valkey cannot be started in {self._data}: {error}") from error
        self._wanted_port = self._port  # whoever knows the address finds a server that has to be started again

    def stop(self) -> None:
        """Ask the server to end, which writes what it holds; kill it after 8 s. Idempotent."""
        if self._server is not None:
            process.stop([self._server], _STOP)
            self._server = None

    def delete_data(self) -> None:
        """Stop the server and remove its data."""
        self.stop()
        process.stop(process.working_in(self._data, _PROGRAMS), _STOP)
        shutil.rmtree(self._data, ignore_errors=True)

    def _started(self) -> psutil.Process:
        if self._server is None:
            raise EmbeddedStoreError(f"the Valkey of {self._folder} has not been started")
        return self._server

    def _adopt(self) -> bool:
        running = process.working_in(self._data, _PROGRAMS)
        port = self._configured_port()
        # Without a configuration the folder was removed and made anew, and the server holds what was removed.
        if len(running) != 1 or port is None:
            return False
        try:
            self._pid_at(port)
        except redis.AuthenticationError:
            return False
        ready = self._await_ready(running[0], port)
        if ready:
            self._server, self._port = running[0], port
        return ready

    def _configured_port(self) -> int | None:
        found = re.search(r"^port (\d+)$", self._config.read_text(), re.MULTILINE) if self._config.exists() else None
        return int(found[1]) if found else None

    def _launch(self, program: Path) -> None:
        wanted = self._wanted_port
        for _ in range(_BIND_ATTEMPTS):
            log_bytes = process.size_bytes(self._log)
            if self._launch_once(program, free_port(wanted)):
                if self._wanted_port not in (None, self._port):
                    logger.warning("embedded.port_taken store=valkey wanted=%d got=%d", self._wanted_port, self._port)
                return
            said = process.last_lines(self._log, since_bytes=log_bytes)
            if "Address already in use" not in said:
                break
            wanted = None
        raise EmbeddedStoreError(f"Valkey did not start; the end of {self._log} says why:\n{said}")

    def _launch_once(self, program: Path, port: int) -> bool:
        replace_file(self._config, self._configuration(port).encode())
        child = process.spawn([str(program), str(self._config)], log=self._log, directory=self._data)
        ready = False
        try:
            ready = self._await_ready(child, port)
        finally:
            if not ready:
                process.stop([child], _STOP)
        if ready:
            self._server, self._port = child, port
        return ready

    def _configuration(self, port: int) -> str:
        kept = ("appendonly yes", "appendfsync everysec") if self._durable else ("appendonly no",)
        # No snapshots: the append-only file is the data, and a dump beside it would be read by nobody.
        lines = [
            "bind 127.0.0.1",
            f"port {port}",
            f"dir {_quoted(str(self._data))}",
            "daemonize no",
            "maxmemory-policy noeviction",
            'save ""',
            *kept,
        ]
        if self._password:
            lines.append(f"requirepass {_quoted(self._password)}")
        return "\n".join(lines) + "\n"

    def _await_ready(self, child: psutil.Process, port: int) -> bool:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            # Someone else may have taken the port first; then our server is about to end.
            with contextlib.suppress(redis.AuthenticationError):
                if self._pid_at(port) == child.pid:
                    return True
            if not is_alive(child):
                return False
            time.sleep(POLL_SECONDS)
        raise EmbeddedStoreError(
            f"Valkey was not ready after {_START_SECONDS:.0f} s; try again when the machine is less busy. "
            f"The end of {self._log}:\n{process.last_lines(self._log)}"
        )

    def _pid_at(self, port: int) -> int | None:
        with redis.Redis(
            host="127.0.0.1",
            port=port,
            password=self._password,
            socket_timeout=_ANSWER_SECONDS,
            socket_connect_timeout=_ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
        ) as client:
            try:
                # Refused while the data is being read, which INFO is not.
                client.ping()
                return int(client.info("server")["process_id"])
            except redis.AuthenticationError:
                raise
            except (redis.ConnectionError, redis.TimeoutError):
                return None


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace("\\", "\\\\").replace('"', '\\"'))
