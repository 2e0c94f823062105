"""What a worker refuses before it takes its first message, each with its exit code and the remedy."""

import socket
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.processes import DEV_HOPS, Service, wait_for
from worker_app.embedded.ports import free_port

pytestmark = pytest.mark.integration


def start(service: Service, *command: str, **changes: str) -> tuple[int, str]:
    done = subprocess.run(
        command, env=service.environment("w", **changes), capture_output=True, text=True, timeout=25, check=False
    )
    return done.returncode, done.stdout + done.stderr


def celery(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "celery", "--app", "worker_app", "worker", *arguments]


@pytest.mark.parametrize("role", ["worker", "beat", "api"])
def test_role_on_an_old_schema_ends_with_75_and_the_remedy(
    service: Service, empty_database_url: str, role: str
) -> None:
    code, text = start(service, DEV_HOPS, role, DATABASE_URL=empty_database_url)
    assert code == 75, text
    assert "run `dev-hops migrate postgres`" in text


def test_role_without_a_database_ends_with_78(service: Service) -> None:
    code, text = start(service, DEV_HOPS, "worker", DATABASE_URL="")
    assert code == 78, text
    assert "DATABASE_URL is not set" in text


def test_celery_without_a_database_ends_with_78(service: Service) -> None:
    code, text = start(service, *celery("--pool", "gevent", "--concurrency", "4"), DATABASE_URL="")
    assert code == 78, text
    assert "DATABASE_URL is not set" in text


def test_telemetry_port_that_is_taken_is_named(service: Service) -> None:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        code, text = start(service, DEV_HOPS, "worker", METRICS_PORT=port)
    assert code == 78, text
    assert f"METRICS_PORT is {port}" in text


def test_flower_without_credentials_ends_with_78(service: Service) -> None:
    code, text = start(service, DEV_HOPS, "flower")
    assert code == 78, text
    assert "FLOWER_BASIC_AUTH" in text


@pytest.mark.timeout(90)
def test_flower_starts_with_credentials_from_a_file(service: Service, tmp_path: Path) -> None:
    given, port = tmp_path / "auth", free_port()
    given.write_text("ops:secret\n", encoding="utf-8")

    def answers() -> bool:
        assert flower.poll() is None, service.log("f")
        try:
            with urlopen(f"http://127.0.0.1:{port}/healthcheck", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    with service.running("f", "flower", FLOWER_BASIC_AUTH_FILE=str(given), FLOWER_PORT=str(port)) as flower:
        wait_for(answers, "Flower answers", 60)


def test_slots_that_disagree_with_the_settings_are_refused(service: Service) -> None:
    code, text = start(service, *celery("--pool", "gevent", "--concurrency", "50"))
    assert code == 78, text
    assert "50 slots and the settings say 4" in text


def test_pool_that_disagrees_with_the_settings_is_refused(service: Service) -> None:
    code, text = start(service, *celery("--pool", "solo", "--concurrency", "4"))
    assert code == 78, text
    assert "pool solo and CELERY_POOL is gevent" in text


def test_every_fault_of_the_settings_comes_out_once(service: Service) -> None:
    code, text = start(service, *celery("--pool", "gevent"), CELERY_AUTOSCALE="2,20", AUTO_RUN_MIGRATIONS="true")
    assert code == 78, text
    assert [line.split(" ")[0] for line in text.strip().splitlines()] == ["CELERY_AUTOSCALE", "AUTO_RUN_MIGRATIONS"]
