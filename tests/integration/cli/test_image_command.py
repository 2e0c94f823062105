"""The image's CMD, run as the image would run it, and the command line that it becomes, read from outside."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

DEADLINE = 20.0
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc to read a command line"),
]


@pytest.fixture
def command(checkout: Path) -> list[str]:
    """The CMD of the Dockerfile."""
    (found,) = re.findall(r"^CMD (\[.*\])$", (checkout / "Dockerfile").read_text(), re.MULTILINE)
    return list(json.loads(found))


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A worker's environment on stores that are not there: it gets as far as its command line."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.defpath}",
        "DATABASE_URL": "postgresql://u:canary-5a1@127.0.0.1:1/n",
        "REDIS_URL": "redis://:canary-5a1@127.0.0.1:1/0",
        "RUN_DIR": str(tmp_path / "run"),
        "DEV_HOPS_DIR": str(tmp_path / "none"),
        "API_PORT": "1",
        "METRICS_PORT": "0",
    }


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes to kill at the end."""
    found: list[subprocess.Popen[str]] = []
    yield found
    for process in found:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()


def become_celery(process: subprocess.Popen[str]) -> list[str]:
    """The command line of the process once it has become Celery."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        argv = psutil.Process(process.pid).cmdline()
        if "celery" in argv:
            return argv
        time.sleep(0.02)
    raise AssertionError(f"it did not become Celery: {process.communicate()}")


COMBINATIONS: list[tuple[dict[str, str], list[str]]] = [
    ({}, ["--pool", "gevent", "--concurrency", "4"]),
    ({"CELERY_POOL": "prefork"}, ["--pool", "prefork", "--concurrency", "4"]),
    ({"CELERY_AUTOSCALE": "20,2"}, ["--pool", "gevent", "--autoscale", "20,2"]),
    ({"CELERY_CONCURRENCY": "10"}, ["--pool", "gevent", "--concurrency", "10"]),
    ({"CELERY_AUTOSCALE": "20,2", "CELERY_CONCURRENCY": "10"}, ["--pool", "gevent", "--autoscale", "20,2"]),
    (
        {"CELERY_POOL": "", "CELERY_AUTOSCALE": "", "CELERY_CONCURRENCY": ""},
        ["--pool", "gevent", "--concurrency", "4"],
    ),
]


def test_every_combination_becomes_the_command_line_that_celery_takes(
    command: list[str], environment: dict[str, str], started: list[subprocess.Popen[str]]
) -> None:
    for given, _ in COMBINATIONS:
        started.append(
            subprocess.Popen(
                command, env=environment | given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    for process, (_, expected) in zip(started, COMBINATIONS, strict=True):
        argv = become_celery(process)
        worker = argv.index("worker", argv.index("worker_app") + 1)
        assert argv[worker : worker + 5] == ["worker", *expected]
        assert "--autoscale" not in argv or "--concurrency" not in argv
        assert "canary" not in " ".join(argv)


@pytest.mark.parametrize("value", ["20", "2,20", "a,b", "0,0"])
def test_nonsense_ends_with_78_and_one_clear_line(command: list[str], environment: dict[str, str], value: str) -> None:
    done = subprocess.run(
        command,
        env=environment | {"CELERY_AUTOSCALE": value},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 78
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        line for line in done.stderr.splitlines() if f"CELERY_AUTOSCALE is '{value}'" in line
    ]
    assert "20,2" in done.stderr


def test_entrypoint_removes_remap_sigterm_and_runs_a_role_by_its_first_argument(
    checkout: Path, environment: dict[str, str]
) -> None:
    entrypoint = ["/bin/sh", str(checkout / "worker_app/cli/entrypoint.sh")]
    given = environment | {"REMAP_SIGTERM": "SIGQUIT"}
    role = subprocess.run(
        [*entrypoint, "--version"], env=given, capture_output=True, text=True, timeout=DEADLINE, check=False
    )
    assert role.stdout.startswith("dev-hops")
    assert "REMAP_SIGTERM is SIGQUIT: removed" in role.stderr
    show = [*entrypoint, "sh", "-c", "echo ${REMAP_SIGTERM-none}"]
    assert (
        subprocess.run(show, env=given, capture_output=True, text=True, timeout=DEADLINE, check=False).stdout
        == "none\n"
    )


def probes(checkout: Path, environment: dict[str, str], *arguments: str) -> tuple[int, int]:
    """What the image's probe and `dev-hops probe` say."""
    shell = ["/bin/sh", str(checkout / "worker_app/cli/probe.sh")]
    python = [str(Path(sys.executable).parent / "dev-hops"), "probe"]
    first, second = (
        subprocess.run([*program, *arguments], env=environment, capture_output=True, timeout=DEADLINE, check=False)
        for program in (shell, python)
    )
    return first.returncode, second.returncode


def test_both_probes_follow_the_same_rule(checkout: Path, environment: dict[str, str]) -> None:
    folder = Path(environment["RUN_DIR"])
    folder.mkdir()
    assert probes(checkout, environment, "alive") == (1, 1)
    (folder / "role").write_text("worker")
    (folder / "worker.alive").touch()
    assert probes(checkout, environment, "alive") == (0, 0)
    assert probes(checkout, environment, "ready") == (1, 1)
    (folder / "worker.ready").touch()
    assert probes(checkout, environment, "ready") == (0, 0)
    os.utime(folder / "worker.alive", (1, 1))
    assert probes(checkout, environment, "ready", "--max-age", "60") == (1, 1)
    (folder / "beat.alive").touch()
    assert probes(checkout, environment, "ready", "--role", "beat") == (0, 0)
    assert probes(checkout, environment, "alive", "--role", "api") == (1, 1)
    assert probes(checkout, environment, "nonsense") == (2, 2)
