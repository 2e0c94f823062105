"""M1: no role changes a schema or starts on one that it cannot use, by our command line or by Celery's and Python's own."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from tests.integration.migrate.waits import session
from tests.processes import Service, wait_for
from worker_app.embedded.ports import free_port
from worker_app.migrate.postgres import migrate_postgres

pytestmark = pytest.mark.integration

ROLES = {
    "worker": ("worker",),
    "beat": ("beat",),
    "api": ("api",),
    "celery worker": (
        *(sys.executable, "-m", "celery", "--app", "worker_app", "worker"),
        *("--pool", "gevent", "--concurrency", "4"),
    ),
    "celery beat": (sys.executable, "-m", "celery", "--app", "worker_app", "beat", "--schedule", "beat.schedule"),
    "python -m worker_app.api": (sys.executable, "-m", "worker_app.api"),
}
READY = {"worker": "worker.ready", "beat": "beat.alive", "api": "api.listening"}
USER, PASSWORD = "plain", "plain-password"


class ServerLog:
    """What the server has written about a database from now on; it names each statement that changes a schema."""

    def __init__(self, url: str) -> None:
        with session(url) as connection:
            name = make_url(url).database
            connection.execute(text(f"ALTER DATABASE {name} SET log_statement = 'ddl'"))
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            self._path = Path(f"/proc/{pid}/fd/2").readlink()
        self._from = self._path.stat().st_size

    def ddl(self) -> list[str]:
        """The statements that changed a schema."""
        with self._path.open("rb") as log:
            log.seek(self._from)
            lines = log.read().decode(errors="replace").splitlines()
        return [line for line in lines if "statement: " in line]


def start(service: Service, words: Sequence[str], **changes: str) -> tuple[int, str]:
    """The end of a role that is a verb of `dev-hops`, or else a whole command line."""
    changes |= {"API_PORT": str(free_port()), "CELERY_CONCURRENCY": "4"}
    command, environment = (
        (words, service.environment("r", **changes))
        if words[0] == sys.executable
        else service.command("r", *words, **changes)
    )
    done = subprocess.run(
        command, cwd=service.folder, env=environment, capture_output=True, text=True, timeout=25, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("role", ROLES)
def test_role_on_a_schema_that_is_behind_ends_with_75_and_changes_nothing(
    service: Service, behind_url: str, role: str
) -> None:
    log = ServerLog(behind_url)
    code, said = start(service, ROLES[role], DATABASE_URL=behind_url)
    assert code == 75, said
    assert "run `dev-hops migrate postgres`" in said
    assert log.ddl() == []


@pytest.mark.parametrize("role", ROLES)
def test_role_that_was_told_to_migrate_by_itself_ends_with_78(service: Service, role: str) -> None:
    code, said = start(service, ROLES[role], AUTO_RUN_MIGRATIONS="true")
    assert code == 78, said
    assert "only `dev-hops migrate` may change a schema" in said


def test_job_is_what_the_server_log_would_show(behind_url: str) -> None:
    log = ServerLog(behind_url)
    migrate_postgres(behind_url, lambda _: None)
    assert log.ddl() != []


@pytest.mark.timeout(90)
def test_roles_work_with_a_user_that_may_create_nothing(service: Service, database_url: str) -> None:
    plain_url = make_url(database_url).set(username=USER, password=PASSWORD).render_as_string(hide_password=False)
    with session(database_url) as owner, ExitStack() as undo:
        owner.execute(text(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"))
        undo.callback(owner.execute, text(f"DROP ROLE {USER}"))
        undo.callback(owner.execute, text(f"DROP OWNED BY {USER}"))
        for kind, rights in (("TABLES", "SELECT, INSERT, UPDATE, DELETE"), ("SEQUENCES", "USAGE, SELECT")):
            owner.execute(text(f"GRANT {rights} ON ALL {kind} IN SCHEMA public TO {USER}"))
        log = ServerLog(database_url)
        for role in READY:
            process = undo.enter_context(service.running(role, role, DATABASE_URL=plain_url, API_PORT=str(free_port())))
            wait_for(lambda role=role, process=process: is_ready(service, role, process), f"{role} works")  # type: ignore[misc]
        wait_for(lambda: has_ticked(service), "a tick of beat was run by the worker")
        assert log.ddl() == []


@pytest.mark.parametrize("role", ["worker", "beat", "api", "status"])
def test_role_of_a_user_without_rights_ends_with_78_and_the_remedy(
    service: Service, database_url: str, role: str
) -> None:
    plain_url = make_url(database_url).set(username=USER, password=PASSWORD).render_as_string(hide_password=False)
    with session(database_url) as owner, ExitStack() as undo:
        owner.execute(text(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'"))
        undo.callback(owner.execute, text(f"DROP ROLE {USER}"))
        words = ["migrate", "status"] if role == "status" else [role]
        code, said = start(service, words, DATABASE_URL=plain_url)
    assert code == (1 if role == "status" else 78), said
    assert f"the user {USER} of DATABASE_URL may not read schema_ledger" in said
    assert "Traceback" not in said


def is_ready(service: Service, role: str, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, service.log(role)
    sign = READY[role]
    return sign in service.log(role) or (service.folder / "run" / role / sign).exists()


def has_ticked(service: Service) -> bool:
    return "dispatch_scheduled_syncs" in service.log("worker")
