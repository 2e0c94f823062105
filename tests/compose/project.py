"""A compose project for tests: the checked-in compose.yaml with secrets, short times and repositories of its own.

It runs what a reader of the how-to pages types. What a test asks of the database it asks directly, at the container's address.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.containers import DEADLINE, IMAGE, Container, DockerError
from worker_app import settings
from worker_app.store.postgres import Postgres

TOP = Path(__file__).resolve().parents[2]
REPOSITORIES = "/srv/repositories"
READERS = ("worker", "api")  # services that see the repositories
START_SECONDS = 300.0  # a quiet machine takes twenty
PORTS = ("API_PORT_HERE", "FLOWER_PORT_HERE", "PROMETHEUS_PORT_HERE", "GRAFANA_PORT_HERE")
SHORT_TIMES = {
    "GIT_ALLOW_FILE": "true",
    "BATCH_LEASE_SECONDS": "10",
    "DISPATCH_INTERVAL_SECONDS": "2",
    "OUTBOX_POLL_SECONDS": "1",
    "RESCUE_INTERVAL_SECONDS": "2",
    "WORKER_SILENT_SECONDS": "10",
}


@dataclass(frozen=True, slots=True)
class Project:
    """One project by its name; `variables` are those that compose.yaml reads."""

    name: str
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def repositories(self) -> Path:
        """The folder that workers see as /srv/repositories."""
        return self.folder / "repositories"

    def prepare(self, **changes: str) -> None:
        """Write its secrets by the script that a newcomer runs, its settings with `changes`, and the mount of repositories."""
        self.repositories.mkdir(parents=True)
        subprocess.run(["sh", str(TOP / "compose/make-secrets.sh"), str(self.folder / "secrets")], check=True)
        lines = "".join(f"{name}={value}\n" for name, value in {**SHORT_TIMES, **changes}.items())
        (self.folder / "settings.env").write_text(lines)
        mount = {"volumes": [f"{self.repositories}:{REPOSITORIES}:ro"]}
        (self.folder / "repositories.yaml").write_text(json.dumps({"services": dict.fromkeys(READERS, mount)}))

    def compose(self, *arguments: str, timeout: float = DEADLINE, **variables: str) -> str:
        """What `docker compose ARGUMENTS` prints on stdout. Raises DockerError with what it said, or when it takes too long."""
        files = ["--file", str(TOP / "compose.yaml"), "--file", str(self.folder / "repositories.yaml")]
        command = ["docker", "compose", "--project-name", self.name, "--env-file", os.devnull, *files, *arguments]
        given = {
            **os.environ,
            "DEV_HOPS_IMAGE": IMAGE,
            "DEV_HOPS_SECRETS": str(self.folder / "secrets"),
            "DEV_HOPS_ENV_FILE": str(self.folder / "settings.env"),
            **dict.fromkeys(PORTS, "0"),
            **self.variables,
            **variables,
        }
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=given)
        except subprocess.TimeoutExpired as error:
            raise DockerError(f"compose {arguments[0]} took more than {timeout:.0f} s") from error
        if done.returncode:
            raise DockerError(f"compose {' '.join(arguments)} ended with {done.returncode}: {done.stderr[-3000:]}")
        return done.stdout

    def up(self, *arguments: str, timeout: float = START_SECONDS, **variables: str) -> None:
        """`docker compose up --detach --wait`; a failure carries the logs of the service."""
        try:
            self.compose("up", "--detach", "--wait", "--no-build", *arguments, timeout=timeout, **variables)
        except DockerError as error:
            raise DockerError(f"{error}\n{self.compose('logs', '--no-color', '--tail', '30')[-12000:]}") from None

    def containers(self, service: str) -> list[Container]:
        """The running containers of a service, the oldest first."""
        ids = self.compose("ps", "--quiet", service).split()
        return sorted(map(Container, ids), key=lambda found: str(found.inspect()["Created"]))

    def dev_hops(self, *words: str, timeout: float = DEADLINE) -> Any:
        """The JSON that a verb of the command line answers in the API's container."""
        return json.loads(self.compose("exec", "--no-TTY", "api", "dev-hops", *words, "--json", timeout=timeout))

    def address(self, service: str, network: str = "stores") -> str:
        """The address of a service's first container on one of the project's networks."""
        networks = self.containers(service)[0].inspect()["NetworkSettings"]["Networks"]
        return str(networks[f"{self.name}_{network}"]["IPAddress"])

    @contextmanager
    def database(self) -> Iterator[Postgres]:
        """The project's own Postgres, from this process."""
        url = (self.folder / "secrets/database_url").read_text().strip()
        here = url.replace("@postgres:", f"@{self.address('postgres')}:")
        opened = Postgres(settings.load({"DATABASE_URL": here}).require_database(), pool_size=5)
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def project(folder: Path, **changes: str) -> Iterator[Project]:
    """A project that is not up yet; at the end its containers, networks and volumes are gone, however that comes."""
    made = Project(f"devhops-test-{uuid4().hex[:8]}", folder)
    made.prepare(**changes)
    try:
        yield made
    finally:
        made.compose("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "0", timeout=120)
