import base64
from pathlib import Path

import pytest

from worker_app import errors, key_ring, settings

SECRET = "canary-8f3a"
KEY = base64.b64encode(b"\xff\xf0\x03" + bytes(range(3, 177, 6))).decode()  # begins with //, as the host of a URL does


def load(**environ: str) -> settings.Settings:
    return settings.load({"DEV_HOPS_DIR": "/nonexistent", **environ})


def fault_of(**environ: str) -> str:
    with pytest.raises(errors.SettingsError) as caught:
        load(**environ)
    return str(caught.value)


def test_defaults_are_those_of_the_contract() -> None:
    found = load()
    assert (found.celery_pool, found.celery_autoscale, found.celery_concurrency) == ("gevent", None, 4)
    assert (found.worker_prefetch_multiplier, found.worker_max_tasks_per_child) == (1, 100)
    assert (found.result_expires, found.result_backend_max_retries, found.broker_pool_limit) == (3600, 3, 10)
    assert (found.worker_drain_seconds, found.visibility_timeout_seconds, found.task_time_limit_seconds) == (
        240,
        3600,
        3000,
    )
    assert (found.batch_lease_seconds, found.batch_deadline_seconds) == (300, 300)
    assert (found.auto_run_migrations, found.gate_outage) == ("false", "local")
    assert found.profile.result_connections == 50


@pytest.mark.parametrize("value", ["20", "2,20", "a,b", "0,0", "20,", ",2", "20,2,1", "-1,-2", "1.5,1"])
def test_autoscale_that_is_nonsense_is_refused_with_value_and_remedy(value: str) -> None:
    message = fault_of(CELERY_AUTOSCALE=value)
    assert message.startswith(f"CELERY_AUTOSCALE is '{value}': ")
    assert "20,2" in message
    assert "\n" not in message


def test_autoscale_is_read_as_max_and_min() -> None:
    assert load(CELERY_AUTOSCALE=" 20 , 2 ").celery_autoscale == (20, 2)


@pytest.mark.parametrize(
    "name", ["CELERY_AUTOSCALE", "CELERY_POOL", "CELERY_CONCURRENCY", "DATABASE_URL", "CELERY_QUEUES"]
)
def test_empty_value_counts_as_unset(name: str) -> None:
    assert load(**{name: ""}) == load()


def test_every_fault_comes_out_in_one_message() -> None:
    message = fault_of(CELERY_POOL="eventlet", CELERY_CONCURRENCY="0", REDIS_URL="http://x", CELERY_QUEUES="sync,nope")
    assert [line.split(" ")[0] for line in message.splitlines()] == [
        "CELERY_POOL",
        "CELERY_CONCURRENCY",
        "CELERY_QUEUES",
        "REDIS_URL",
    ]


def test_fault_and_contradiction_come_out_together() -> None:
    message = fault_of(CELERY_POOL="eventlet", CELERY_AUTOSCALE="60,2", REDIS_MAX_CONNECTIONS="50")
    assert [line.split(" ")[0] for line in message.splitlines()] == ["CELERY_POOL", "REDIS_MAX_CONNECTIONS:"]


def test_migrations_by_a_role_are_refused() -> None:
    assert "dev-hops migrate" in fault_of(AUTO_RUN_MIGRATIONS="true")
    assert load(AUTO_RUN_MIGRATIONS="False").auto_run_migrations == "false"


def test_contradiction_of_connections_names_the_arithmetic() -> None:
    message = fault_of(CELERY_AUTOSCALE="60,2", REDIS_MAX_CONNECTIONS="50")
    assert "60 slots + 10 spare = 70" in message


def test_visibility_below_the_hard_limit_is_refused() -> None:
    assert "3300" in fault_of(VISIBILITY_TIMEOUT_SECONDS="3000")


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_autoscale_on_a_pool_that_cannot_grow_is_refused(pool: str) -> None:
    assert pool in fault_of(CELERY_POOL=pool, CELERY_AUTOSCALE="20,2")


def test_value_is_read_from_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "url"
    path.write_text("postgres://u:p@h:5432/n\n")
    assert load(DATABASE_URL_FILE=str(path)).require_database() == "postgresql+psycopg2://u:p@h:5432/n"


def test_file_that_is_missing_and_a_name_said_twice_are_faults(tmp_path) -> None:  # type: ignore[no-untyped-def]
    missing = tmp_path / "none"
    message = fault_of(REDIS_URL_FILE=str(missing), API_TOKEN="a", API_TOKEN_FILE=str(missing))
    assert f"REDIS_URL_FILE is {missing}" in message
    assert "API_TOKEN and API_TOKEN_FILE are both set" in message


def test_secrets_are_masked_everywhere() -> None:
    found = load(
        DATABASE_URL=f"postgresql://u:{SECRET}@h:5432/n",
        REDIS_URL=f"redis://:{SECRET}@h:6379/0",
        API_TOKEN=SECRET,
        FLOWER_BASIC_AUTH=f"user:{SECRET}",
        CREDENTIAL_KEYS=f"k1:{KEY}",
    )
    assert SECRET not in repr(found)
    assert KEY not in repr(found)
    assert KEY.lower() not in str(found.shown()).lower()
    assert SECRET not in str(found.shown())
    assert found.shown()["DATABASE_URL"] == "postgresql+psycopg2://u:***@h:5432/n"


def test_faulty_secret_is_not_in_the_message() -> None:
    assert SECRET not in fault_of(DATABASE_URL=f"mysql://u:{SECRET}@h/n", REDIS_URL=f"amqp://:{SECRET}@h")


def test_key_ring_that_is_wrong_is_refused_by_ids_alone() -> None:
    message = fault_of(CREDENTIAL_KEYS=f"k1:{base64.b64encode(SECRET.encode()).decode()},{KEY}")
    assert message.startswith("CREDENTIAL_KEYS is ***: k1 has 11 bytes instead of 32; entry 2 has no id")
    assert KEY not in message


def test_key_ring_that_is_missing_is_asked_for_with_the_command_that_makes_one() -> None:
    with pytest.raises(errors.SettingsError, match="head -c 32 /dev/urandom"):
        load().require_credential_keys()
    assert load(CREDENTIAL_KEYS=key_ring.generate("k7")).require_credential_keys().writes == "k7"


def test_addresses_of_apis_are_read_by_host_and_refused_without_a_password_in_the_message() -> None:
    found = load(PROVIDER_API_URLS="ghe.acme.com=https://ghe.acme.com/api/v3,github.localhost=http://127.0.0.1:1")
    assert dict(found.provider_api_urls)["github.localhost"] == "http://127.0.0.1:1"
    assert found.shown()["PROVIDER_API_URLS"].startswith("ghe.acme.com=https://ghe.acme.com/api/v3,github")
    message = fault_of(PROVIDER_API_URLS=f"a=http://x.example,b=https://me:{SECRET}@x.example")
    assert "a has a URL that is neither" in message
    assert SECRET not in message


def test_stores_of_a_running_up_fill_in_what_is_unset(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "env.json").write_text('{"DATABASE_URL": "postgresql://u@h/up", "REDIS_URL": "redis://h:1/0"}')
    found = settings.load({"DEV_HOPS_DIR": str(tmp_path), "REDIS_URL": "redis://h:2/0"})
    assert found.require_database().endswith("/up")
    assert found.broker_url == "redis://h:2/0"


def test_environment_with_a_database_ignores_a_running_up(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "env.json").write_text('{"DATABASE_URL": "postgresql://u@h/up", "REDIS_URL": "redis://h:1/0"}')
    found = settings.load({"DEV_HOPS_DIR": str(tmp_path), "DATABASE_URL": "postgresql://u@h/mine"})
    assert found.require_database().endswith("/mine")
    assert found.broker_url == settings.DEFAULT_REDIS_URL


def test_missing_database_names_the_remedy() -> None:
    with pytest.raises(errors.SettingsError, match="dev-hops up"):
        load().require_database()


def test_every_setting_is_described() -> None:
    assert [name for name, field in settings.Settings.model_fields.items() if not field.description] == []


def test_consumed_queues_are_those_of_the_fleet_unless_named() -> None:
    assert load(DEV_HOPS_FLEET="worker-heavy").consumed_queues == ("metrics", "backfill")
    assert load(CELERY_QUEUES="sync, sync.git").consumed_queues == ("sync", "sync.git")


def test_certificates_and_proxy_of_providers_are_refused_by_name(tmp_path: Path) -> None:
    message = fault_of(PROVIDER_CA_BUNDLE=str(tmp_path / "none.pem"), PROVIDER_PROXY=f"ftp://bot:{SECRET}@proxy:3128")
    assert f"PROVIDER_CA_BUNDLE is '{tmp_path}/none.pem': there is no such file" in message
    assert "PROVIDER_PROXY is ***: it is http://[USER:PASSWORD@]HOST:PORT" in message
    assert SECRET not in message
    (tmp_path / "ca.pem").touch()
    chosen = load(PROVIDER_CA_BUNDLE=str(tmp_path / "ca.pem"), PROVIDER_PROXY=f"http://bot:{SECRET}@proxy:3128")
    assert chosen.shown()["PROVIDER_PROXY"] == "***"


def test_change_takes_the_place_of_the_file_that_would_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWER_BASIC_AUTH_FILE", "/run/secrets/flower")
    monkeypatch.setenv("REDIS_URL_FILE", "/run/secrets/redis")
    found = settings.role_environment({"FLOWER_BASIC_AUTH": "ops:secret"})
    assert "FLOWER_BASIC_AUTH_FILE" not in found
    assert (found["FLOWER_BASIC_AUTH"], found["REDIS_URL_FILE"]) == ("ops:secret", "/run/secrets/redis")


def test_file_that_is_empty_is_told(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("\n")
    with pytest.raises(errors.SettingsError, match=r"DATABASE_URL_FILE is .*: it is empty"):
        settings.load({"DATABASE_URL_FILE": str(tmp_path / "url"), "DEV_HOPS_DIR": "/nonexistent"})
