import stat
import subprocess
from pathlib import Path

import pytest

from tests.compose.project import TOP
from worker_app import settings

SETTINGS = (
    "DATABASE_URL",
    "REDIS_URL",
    "CLICKHOUSE_URL",
    "CREDENTIAL_KEYS",
    "API_TOKEN",
    "AUTOSCALE_TOKEN",
    "FLOWER_BASIC_AUTH",
)


def make(folder: Path) -> dict[str, str]:
    subprocess.run(["sh", str(TOP / "compose/make-secrets.sh"), str(folder)], check=True, timeout=20)
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_settings_read_what_the_script_writes(tmp_path: Path) -> None:
    make(tmp_path / "secrets")
    chosen = settings.load({f"{name}_FILE": str(tmp_path / "secrets" / name.lower()) for name in SETTINGS})
    assert chosen.require_credential_keys().writes == "k1"
    assert chosen.broker_url.endswith("@redis:6379/0")
    assert chosen.require_database().endswith("@postgres:5432/dev_hops")


def test_passwords_of_addresses_are_those_of_the_stores(tmp_path: Path) -> None:
    found = {name: text.strip() for name, text in make(tmp_path / "secrets").items()}
    assert f":{found['postgres_password']}@" in found["database_url"]
    assert f":{found['redis_auth'].removeprefix('requirepass ')}@" in found["redis_url"]
    assert f":{found['clickhouse_password']}@" in found["clickhouse_url"]
    assert len(set(found.values())) == len(found)


def test_second_run_keeps_what_is_there_and_adds_what_is_missing(tmp_path: Path) -> None:
    first = make(tmp_path / "secrets")
    for name in ("database_url", "api_token"):
        (tmp_path / "secrets" / name).unlink()
    second = make(tmp_path / "secrets")
    assert {name for name in first if first[name] != second[name]} == {"api_token"}


@pytest.mark.parametrize("umask", ["000", "077"])
def test_folder_is_closed_and_its_files_are_readable_by_the_roles(tmp_path: Path, umask: str) -> None:
    line = 'umask "$1"; exec sh "$2" "$3"'
    script = str(TOP / "compose/make-secrets.sh")
    subprocess.run(["sh", "-c", line, "sh", umask, script, str(tmp_path / "secrets")], check=True, timeout=20)
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "secrets").iterdir()} == {0o644}
