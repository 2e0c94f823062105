"""What compose.yaml must hold of every service, read as Compose resolves it. Needs the docker client and no engine."""

import json
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.compose.project import TOP, Project
from tests.containers import refuse

STORES = {"redis", "postgres", "clickhouse"}
MONITORING = {"prometheus", "grafana", "flower"}
FLEETS = {"worker", "worker-ingest", "worker-heavy"}
ROLES = FLEETS | {"migrate", "beat", "api", "flower"}
MOST_GRACE_SECONDS = 600


@cache
def resolved(*profiles: str) -> dict[str, Any]:
    if shutil.which("docker") is None:
        refuse("needs the docker client with Compose")
    chosen = [word for profile in profiles for word in ("--profile", profile)]
    command = ["docker", "compose", "--file", str(TOP / "compose.yaml"), *chosen, "config", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return dict(json.loads(done.stdout))


def services(*profiles: str) -> dict[str, Any]:
    return dict(resolved(*profiles or ("*",))["services"])


def seconds(duration: str) -> int:
    parts = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", duration)
    assert parts, duration
    return 60 * int(parts[1] or 0) + int(parts[2] or 0)


@pytest.mark.parametrize(
    ("profiles", "more"),
    [
        ((), set()),
        (("clickhouse",), {"clickhouse"}),
        (("monitoring",), MONITORING),
        (("*",), {"clickhouse"} | MONITORING),
    ],
)
def test_each_profile_adds_its_services(profiles: tuple[str, ...], more: set[str]) -> None:
    usual = {"redis", "postgres", "migrate", "worker", "worker-ingest", "worker-heavy", "beat", "api"}
    assert set(resolved(*profiles)["services"]) == usual | more


@pytest.mark.parametrize("name", sorted(STORES | MONITORING | ROLES))
def test_service_is_confined_and_limited(name: str) -> None:
    found = services()[name]
    assert "container_name" not in found
    assert found["cap_drop"] == ["ALL"]
    assert found["security_opt"] == ["no-new-privileges:true"]
    assert found.get("read_only", False) is (name != "clickhouse")
    assert int(found["mem_limit"]) > 0
    assert found["logging"] == {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}}
    assert not found.get("privileged")
    assert "cap_add" not in found or name in STORES


@pytest.mark.parametrize("name", sorted(STORES | MONITORING | ROLES))
def test_ports_are_open_to_this_machine_alone(name: str) -> None:
    ports = services()[name].get("ports", [])
    assert [port["host_ip"] for port in ports] == ["127.0.0.1"] * len(ports)
    assert bool(ports) is (name in MONITORING | {"api"})


def test_stores_reach_nothing_outside() -> None:
    assert resolved()["networks"]["stores"]["internal"] is True
    assert {name: list(services()[name]["networks"]) for name in STORES} == {name: ["stores"] for name in STORES}


@pytest.mark.parametrize("name", sorted(FLEETS))
def test_worker_is_killed_a_minute_after_its_drain_at_the_earliest(name: str) -> None:
    found = services()[name]
    grace = seconds(found["stop_grace_period"])
    assert grace >= int(found["environment"]["WORKER_DRAIN_SECONDS"]) + 60
    assert grace <= MOST_GRACE_SECONDS


@pytest.mark.parametrize("name", sorted(ROLES))
def test_role_is_the_image_with_its_own_probe(name: str) -> None:
    found = services()[name]
    assert found["image"] == "dev-hops"
    assert found["build"]["context"] == str(TOP)
    assert any(item.startswith("/run/worker:") for item in found["tmpfs"])
    if name == "migrate":
        assert found["restart"] == "no"
    else:
        assert found["healthcheck"]["test"] == ["CMD", "/app/bin/probe", "ready"]


@pytest.mark.parametrize("name", sorted(ROLES - {"migrate", "flower"}))
def test_role_waits_for_its_stores_and_the_migration(name: str) -> None:
    waits = {other: item["condition"] for other, item in services()[name]["depends_on"].items()}
    assert waits == {
        "postgres": "service_healthy",
        "redis": "service_healthy",
        "clickhouse": "service_healthy",
        "migrate": "service_completed_successfully",
    }


def test_redis_keeps_every_message() -> None:
    line = " ".join(services()["redis"]["command"])
    assert "--maxmemory-policy noeviction" in line
    assert "--appendonly yes" in line
    assert "--appendfsync everysec" in line


@pytest.mark.parametrize("name", sorted(STORES | MONITORING | ROLES))
def test_secrets_come_as_files_only(name: str) -> None:
    found = services()[name]
    given = {
        key: value for key, value in found.get("environment", {}).items() if re.search("PASS|TOKEN|KEY|URL|AUTH", key)
    }
    assert {key: value for key, value in given.items() if not key.endswith("_FILE")} == {}
    mounted = {f"/run/secrets/{item['target'].rpartition('/')[2]}" for item in found.get("secrets", [])}
    assert {value for value in given.values() if value} <= mounted


@pytest.mark.usefixtures("images")
def test_missing_secret_is_named(fleet: Project) -> None:
    (fleet.folder / "secrets/database_url").unlink()
    with pytest.raises(AssertionError, match=r"does not exist: .*/secrets/database_url"):
        fleet.compose("create", "--no-build", "migrate")


def test_prometheus_takes_its_configuration(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        refuse("needs promtool, of Prometheus")
    text = (TOP / "compose/prometheus.yaml").read_text()
    rules = TOP / "helm/alerts/rules.yaml"
    (tmp_path / "prometheus.yaml").write_text(text.replace("/etc/prometheus/rules.yaml", str(rules)))
    command = ["promtool", "check", "config", str(tmp_path / "prometheus.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 0, done.stdout + done.stderr
    assert services()["prometheus"]["configs"][0]["target"] == "/etc/prometheus/prometheus.yml"
