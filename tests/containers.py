"""Containers for tests: a thin shell around the docker client. Each one carries a label, and the label removes them all.

What is needed for it is a `docker` on PATH and an engine that answers. Without one a test skips with the reason; where
CI=true it fails, so that no run is green because nothing ran.
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest

LABEL = "dev-hops.tests"
DEADLINE = 120.0  # seconds; a loaded machine takes its time to start a container
IMAGE = os.environ.get("DEV_HOPS_IMAGE") or "dev-hops"


class DockerError(AssertionError):
    """The docker client ended with something other than 0; the message is what it said."""


def docker(*arguments: str, timeout: float = DEADLINE) -> str:
    """What `docker ARGUMENTS` prints on stdout. Raises DockerError when it fails or takes longer than `timeout` seconds."""
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired as error:
        raise DockerError(f"docker {arguments[0]} took more than {timeout:.0f} s") from error
    if done.returncode:
        raise DockerError(f"docker {arguments[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def require_docker() -> None:
    """Skip where no engine answers; fail there when CI=true."""
    try:
        docker("version", "--format", "{{.Server.Version}}", timeout=20)
    except (DockerError, OSError) as error:
        refuse(f"needs a Docker engine: {error}")


def refuse(reason: str) -> None:
    """Skip this test, or fail it where CI=true, with the reason."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = DEADLINE, pause: float = 0.1) -> None:
    """Return once the condition holds. Raises AssertionError naming `what` after so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds:.0f} s still not: {what}")
        time.sleep(pause)


@dataclass(frozen=True, slots=True)
class Container:
    """One container by its name, which is also its host name on the session's network."""

    name: str

    def logs(self) -> str:
        """Everything it has written, stdout and stderr."""
        done = subprocess.run(
            ["docker", "logs", self.name],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
        return done.stdout

    def exec(self, *argv: str, timeout: float = DEADLINE) -> str:
        """The stdout of a program in it. Raises DockerError when the program fails."""
        return docker("exec", self.name, *argv, timeout=timeout)

    def exit_code_of(self, *argv: str, timeout: float = DEADLINE) -> int:
        """With what a program in it ends."""
        done = subprocess.run(
            ["docker", "exec", self.name, *argv], capture_output=True, text=True, timeout=timeout, check=False
        )
        return done.returncode

    def inspect(self) -> dict[str, Any]:
        """What the engine knows of it."""
        (found,) = json.loads(docker("inspect", self.name))
        return dict(found)

    @property
    def state(self) -> dict[str, Any]:
        """Its state: Running, Pid, ExitCode, OOMKilled, Health …"""
        return dict(self.inspect()["State"])

    @property
    def health(self) -> str:
        """starting, healthy or unhealthy; empty where its image has no health check."""
        return str((self.state.get("Health") or {}).get("Status", ""))

    @property
    def address(self) -> str:
        """Its address on its network, as the host of the engine reaches it."""
        (network,) = self.inspect()["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    def kill(self, name: str = "KILL") -> None:
        """Send a signal to its first process."""
        docker("kill", "--signal", name, self.name)

    def stop(self, seconds: int = 60) -> float:
        """Send SIGTERM, wait at most so long, then SIGKILL. Returns how many seconds it took."""
        started = time.monotonic()
        docker("stop", "--time", str(seconds), self.name, timeout=seconds + DEADLINE)
        return time.monotonic() - started

    def exit_code(self, timeout: float = DEADLINE) -> int:
        """With what it ended; waits for its end."""
        return int(docker("wait", self.name, timeout=timeout))

    def wait_for_log(self, text: str, seconds: float = DEADLINE) -> None:
        """Return once it has written this text. Raises AssertionError with what it wrote instead."""
        try:
            wait_for(lambda: text in self.logs(), text, seconds, pause=0.3)
        except AssertionError as error:
            raise AssertionError(f"{self.name}: {error}\n{self.logs()[-4000:]}") from None

    def wait_healthy(self, seconds: float = DEADLINE) -> None:
        """Return once its own health check says healthy. Raises AssertionError with its log when it ends or stays ill."""
        try:
            wait_for(lambda: self.health == "healthy" or not self.state["Running"], "healthy", seconds, pause=0.3)
            assert self.health == "healthy"
        except AssertionError as error:
            raise AssertionError(f"{self.name} is {self.state}: {error}\n{self.logs()[-4000:]}") from None

    def remove(self) -> None:
        """Kill and remove it with its volumes; one that is gone already is no error."""
        docker("rm", "--force", "--volumes", self.name)


@dataclass(frozen=True, slots=True)
class Yard:
    """The containers of one session on a network of their own; `label` marks all that is theirs."""

    label: str
    network: str

    def run(
        self,
        image: str,
        *command: str,
        name: str = "one",
        environment: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
    ) -> Container:
        """Start a container in the background. `name` is the beginning of its name, `options` are docker's own."""
        full = f"{name}-{uuid4().hex[:8]}"
        given = [f"--env={key}={value}" for key, value in (environment or {}).items()]
        marks = ["--detach", "--name", full, "--label", self.label, "--network", self.network]
        docker("run", *marks, *given, *options, image, *command)
        return Container(full)

    def finished(self, image: str, *command: str, timeout: float = DEADLINE, **given: Any) -> tuple[int, str]:
        """Run a container to its end: its exit code and all that it wrote."""
        made = self.run(image, *command, **given)
        try:
            return made.exit_code(timeout), made.logs()
        finally:
            made.remove()


@contextmanager
def yard() -> Iterator[Yard]:
    """A network and whatever is started on it; all of it is removed at the end, however that comes."""
    mark = uuid4().hex[:8]
    made = Yard(f"{LABEL}={mark}", f"dev-hops-{mark}")
    docker("network", "create", "--label", made.label, made.network)
    try:
        yield made
    finally:
        if left := docker("ps", "--all", "--quiet", "--filter", f"label={made.label}").split():
            docker("rm", "--force", "--volumes", *left)
        docker("network", "rm", made.network)
