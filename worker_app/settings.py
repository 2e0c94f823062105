"""Settings: the one reader of the environment, read once into a frozen object.

Each name may end in `_FILE`: then the value is read from that file. An empty value counts as unset. Everything that is
wrong or contradicts itself comes out in one SettingsError (exit code 78), each line with the name, the value and the
remedy; the value of a secret is never in it. Where `DATABASE_URL` is unset, the stores of a running `dev-hops up` in
`DEV_HOPS_DIR` fill in what the environment leaves open.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from celery_utils import PerformanceProfile, ProfileError
from worker_app import api_urls, clickhouse_address, errors, fleets, key_ring, queues
from worker_app.key_ring import KeyRing

Positive = Annotated[int, Field(ge=1)]
PROFILE_NAMES = {  # how a line of the profile that begins with its own name is introduced
    "autoscale": "CELERY_AUTOSCALE: ",
    "redis_max_connections": "REDIS_MAX_CONNECTIONS: ",
    "visibility_timeout_seconds": "VISIBILITY_TIMEOUT_SECONDS: ",
}
RENEWALS = "DEV_HOPS_RENEWALS"
DEFAULT_REDIS_URL = "redis://localhost:6379/0"
DEFAULT_DIR = Path("~/.local/share/dev-hops")


class Settings(BaseSettings):
    """Everything that the environment decides. Defaults are production defaults; times are seconds."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True, hide_input_in_errors=True)

    celery_pool: Literal["gevent", "prefork", "threads", "solo"] = Field(
        "gevent", description="pool of the worker: gevent or prefork keep every promise"
    )
    celery_autoscale: Annotated[tuple[int, int] | None, NoDecode] = Field(
        None, description="slots as `max,min`, for example 20,2; wins over CELERY_CONCURRENCY"
    )
    celery_concurrency: Positive = Field(4, description="slots of the worker when CELERY_AUTOSCALE is not set")
    celery_queues: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="queues to consume, separated by commas; unset: those of DEV_HOPS_FLEET"
    )
    dev_hops_fleets: Annotated[dict[str, tuple[str, ...]], NoDecode] = Field(
        dict(fleets.BUILT_IN),
        description="fleets and their queues as `name=queue,queue;name=queue`, the same for every role; unset: worker, "
        "worker-ingest and worker-heavy",
    )
    dev_hops_fleet: str = Field(fleets.DEFAULT, description="fleet of this worker, one of DEV_HOPS_FLEETS")
    redis_url: SecretStr = Field(SecretStr(DEFAULT_REDIS_URL), description="Redis for locks, gates and presence")
    celery_broker_url: SecretStr | None = Field(None, description="Redis that carries the messages; unset: REDIS_URL")
    celery_result_backend: SecretStr | None = Field(None, description="Redis that keeps results; unset: the broker")
    database_url: SecretStr | None = Field(
        None,
        description="Postgres, the truth: postgresql://USER:PASSWORD@HOST:5432/NAME; every role but flower needs it",
    )
    clickhouse_url: SecretStr | None = Field(
        None,
        description="ClickHouse for metrics: http[s]://USER:PASSWORD@HOST:PORT/DATABASE; unset: metrics stay in Postgres",
    )
    credential_keys: SecretStr | None = Field(
        None, description="key ring `k2:base64,k1:base64`; the first writes, all read"
    )
    provider_api_urls: Annotated[tuple[tuple[str, str], ...], NoDecode] = Field(
        (),
        description="where the API of a host is, as `host=url,host=url`, in place of the usual address; "
        "https, or http on this machine",
    )
    provider_ca_bundle: Path | None = Field(
        None,
        description="file of the certificate authorities of providers; unset: the public ones. For Enterprise hosts",
    )
    provider_proxy: SecretStr | None = Field(
        None,
        description="http proxy to providers, `http://[USER:PASSWORD@]HOST:PORT`; unset: none, whatever HTTPS_PROXY says",
    )
    auto_run_migrations: Literal["false"] = Field(
        "false", description="only false is accepted: `dev-hops migrate` alone changes a schema"
    )
    gate_outage: Literal["local", "closed", "open"] = Field(
        "local", description="what the rate-limit gate does while Redis is away"
    )
    flower_basic_auth: SecretStr | None = Field(
        None, description="`user:password` of Flower, several separated by commas; without it Flower does not start"
    )
    flower_read_only: bool = Field(
        True, description="Flower shows and changes nothing: a request to control a worker or send a task answers 403"
    )
    api_token: SecretStr | None = Field(
        None, description="bearer token of the API; without it only the open paths answer"
    )
    autoscale_token: SecretStr | None = Field(
        None, description="bearer token that opens GET /autoscale/* and nothing else"
    )

    worker_name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$")] | None = Field(
        None, description="name of this worker before @HOST; unset: the fleet. Two of one name on a host count as one"
    )
    worker_prefetch_multiplier: Positive = Field(1, description="messages held per slot")
    worker_max_tasks_per_child: Positive = Field(100, description="tasks per slot before the process is renewed")
    worker_max_memory_per_child_mb: Positive | None = Field(None, description="megabytes before the process is renewed")
    worker_drain_seconds: Positive = Field(240, description="time for running tasks after SIGTERM")
    worker_watchdog_seconds: Positive = Field(
        300,
        description="a worker with free slots that receives nothing for so long, although messages wait in its queues, "
        "stops saying that it is alive",
    )
    worker_silent_seconds: Positive = Field(
        300, description="what a worker held that has given no sign of life for so long others take"
    )
    worker_send_task_events: bool = Field(False, description="task events for Flower")
    visibility_timeout_seconds: Positive = Field(
        3600, description="after which another worker may take an unacknowledged message"
    )
    task_time_limit_seconds: Positive = Field(3000, description="hard limit of one task")
    result_expires: Positive = Field(3600, description="life of a task result")
    result_backend_max_retries: Annotated[int, Field(ge=0)] = Field(3, description="tries more to store a result")
    broker_pool_limit: Positive = Field(10, description="connections for publishing")
    redis_max_connections: Positive | None = Field(
        None, description="connections of the result backend; unset: max(50, slots + 10)"
    )
    batch_lease_seconds: Positive = Field(300, description="life of a batch's lease between two renewals")
    batch_deadline_seconds: Positive = Field(300, description="after which a batch yields its slot at its cursor")
    sync_concurrency_per_provider: Positive = Field(
        8, description="batches released at once per organisation and provider"
    )
    sync_run_max_batches: Positive = Field(5000, description="batches of one run; more is refused when it is planned")
    schedule_min_interval_seconds: Positive = Field(300, description="least distance of two slots of a schedule")
    dispatch_interval_seconds: Positive = Field(300, description="beat sends dispatch_scheduled_syncs this often")
    rescue_interval_seconds: Positive = Field(60, description="beat sends rescue this often")
    history_days: Positive = Field(90, description="ledger rows and closed runs are kept for so many days")
    outbox_poll_seconds: Positive = Field(
        12, description="the relay looks for owed messages this often, beside its own commits"
    )
    outbox_max_depth: Positive = Field(10_000, description="messages in a queue above which the rest waits in Postgres")
    schema_wait_seconds: Annotated[int, Field(ge=0)] = Field(
        60, description="a role waits this long for its schema, then exits 75"
    )

    git_mirrors_dir: Path = Field(
        Path("/var/tmp/dev-hops/mirrors"),  # noqa: S108 - a cache that may be lost at any moment; the reader makes it private
        description="folder of the bare clones; a cache",
    )
    git_allow_file: bool = Field(False, description="read repositories by path; only for `dev-hops up` and tests")
    run_dir: Path = Field(Path("/run/worker"), description="folder of the probe files")
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = Field(
        9464, description="port on which a worker or beat answers GET /metrics; 0: off"
    )
    metrics_host: str = Field("0.0.0.0", description="address on which METRICS_PORT listens")  # noqa: S104 - a pod's door
    api_host: str = Field("0.0.0.0", description="address on which the API listens")  # noqa: S104 - a container's door
    api_port: Annotated[int, Field(ge=1, le=65535)] = Field(8000, description="port of the API")
    flower_host: str = Field("0.0.0.0", description="address on which Flower listens")  # noqa: S104 - a container's door
    flower_port: Annotated[int, Field(ge=1, le=65535)] = Field(5555, description="port of Flower")
    prometheus_multiproc_dir: Path | None = Field(
        None,
        description="folder in which the children of one prefork worker count; unset: `dev-hops worker` makes one for temporary "
        "files",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="least level that is logged")
    log_format: Literal["json", "text"] = Field("json", description="one JSON document a line, or text for people")
    dev_hops_dir: Path = Field(DEFAULT_DIR, description="folder of `dev-hops up`")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take values from `load` alone: it has merged the environment, the `_FILE` names and a running `up`."""
        return (init_settings,)

    @field_validator("auto_run_migrations", mode="before")
    @classmethod
    def _refuse_own_migrations(cls, value: object) -> object:
        if str(value).lower() != "false":
            raise ValueError("only `dev-hops migrate` may change a schema; set it to false or leave it unset")
        return "false"

    @field_validator("celery_autoscale", mode="before")
    @classmethod
    def _parse_autoscale(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        parts = value.split(",")
        if len(parts) != 2 or not all(part.strip().isdecimal() for part in parts):
            raise ValueError("it is `max,min`, two whole numbers, for example 20,2")
        highest, lowest = (int(part) for part in parts)
        if not 1 <= lowest <= highest:
            raise ValueError("it is `max,min` with max >= min >= 1, for example 20,2")
        return highest, lowest

    @field_validator("celery_queues", mode="before")
    @classmethod
    def _parse_queues(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        names = tuple(name.strip() for name in value.split(",") if name.strip())
        if unknown := [name for name in names if name not in queues.ALL_QUEUES]:
            raise ValueError(f"no such queue: {', '.join(unknown)}; there are {', '.join(queues.ALL_QUEUES)}")
        return names

    @field_validator("dev_hops_fleets", mode="before")
    @classmethod
    def _parse_fleets(cls, value: object) -> object:
        return fleets.parse(value) if isinstance(value, str) else value

    @field_validator("provider_api_urls", mode="before")
    @classmethod
    def _parse_api_urls(cls, value: object) -> object:
        return api_urls.parse(value) if isinstance(value, str) else value

    @field_validator("provider_ca_bundle", mode="after")
    @classmethod
    def _check_ca_bundle(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_file():
            raise ValueError("there is no such file; give the path of a PEM file")
        return value

    @field_validator("provider_proxy", mode="after")
    @classmethod
    def _check_proxy(cls, value: SecretStr | None) -> SecretStr | None:
        parts = urlsplit(value.get_secret_value()) if value else None
        if parts is not None and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("it is http://[USER:PASSWORD@]HOST:PORT or https://…")
        return value

    @field_validator("credential_keys", mode="after")
    @classmethod
    def _check_credential_keys(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            key_ring.parse(value.get_secret_value())
        return value

    @field_validator("clickhouse_url", mode="after")
    @classmethod
    def _check_clickhouse(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            clickhouse_address.parse(value.get_secret_value())
        return value

    @field_validator("redis_url", "celery_broker_url", "celery_result_backend", mode="after")
    @classmethod
    def _check_redis(cls, value: SecretStr | None) -> SecretStr | None:
        if value and urlsplit(value.get_secret_value()).scheme not in ("redis", "rediss"):
            raise ValueError("it is redis://[:PASSWORD@]HOST:PORT/DATABASE or rediss://…")
        return value

    @field_validator("database_url", mode="after")
    @classmethod
    def _check_database(cls, value: SecretStr | None) -> SecretStr | None:
        if value is None:
            return None
        scheme, _, rest = value.get_secret_value().partition("://")
        if scheme not in ("postgresql", "postgres", "postgresql+psycopg2"):
            raise ValueError("it is postgresql://USER:PASSWORD@HOST:PORT/NAME")
        return SecretStr(f"postgresql+psycopg2://{rest}")  # one spelling inside, whichever a platform hands out

    @property
    def broker_url(self) -> str:
        """The broker's address, password included."""
        return (self.celery_broker_url or self.redis_url).get_secret_value()

    @property
    def result_backend(self) -> str:
        """The result backend's address, password included."""
        return (self.celery_result_backend or self.celery_broker_url or self.redis_url).get_secret_value()

    @property
    def consumed_queues(self) -> tuple[str, ...]:
        """The queues that this worker takes from. Raises SettingsError where its fleet is not among the fleets."""
        if fault := self.fleet_fault():
            raise errors.SettingsError(fault)
        return self.celery_queues or self.dev_hops_fleets[self.dev_hops_fleet]

    @property
    def profile(self) -> PerformanceProfile:
        """The performance profile of this process. Raises ProfileError when the values contradict one another."""
        return PerformanceProfile(
            pool=self.celery_pool,
            concurrency=self.celery_concurrency,
            autoscale=self.celery_autoscale,
            prefetch_multiplier=self.worker_prefetch_multiplier,
            max_tasks_per_child=self.worker_max_tasks_per_child,
            max_memory_per_child_mb=self.worker_max_memory_per_child_mb,
            result_expires_seconds=self.result_expires,
            result_backend_max_retries=self.result_backend_max_retries,
            broker_pool_limit=self.broker_pool_limit,
            redis_max_connections=self.redis_max_connections,
            visibility_timeout_seconds=self.visibility_timeout_seconds,
            task_time_limit_seconds=self.task_time_limit_seconds,
            send_task_events=self.worker_send_task_events,
        )

    def fleet_fault(self) -> str | None:
        """What is wrong with DEV_HOPS_FLEET, which matters to a worker and to whoever has set it; None where nothing is."""
        if self.dev_hops_fleet in self.dev_hops_fleets:
            return None
        return (
            f"DEV_HOPS_FLEET is {self.dev_hops_fleet!r}: there is no such fleet; give one of "
            f"{', '.join(self.dev_hops_fleets)}, or name it in DEV_HOPS_FLEETS"
        )

    def require_database(self) -> str:
        """The database's address; raises SettingsError with the remedy where none is set."""
        if self.database_url is None:
            raise errors.SettingsError(
                "DATABASE_URL is not set: give postgresql://USER:PASSWORD@HOST:5432/NAME, or run `dev-hops up` first"
            )
        return self.database_url.get_secret_value()

    def require_credential_keys(self) -> KeyRing:
        """The key ring; raises SettingsError with the remedy where none is set."""
        if self.credential_keys is None:
            raise errors.SettingsError(
                f"CREDENTIAL_KEYS is not set: make a key with {key_ring.MAKE_A_KEY}, give it to every worker and to this "
                "command, and keep a copy: without it no credential can be opened again"
            )
        return key_ring.parse(self.credential_keys.get_secret_value())

    def shown(self) -> dict[str, str]:
        """Every name with its resolved value as text, secrets masked: what `dev-hops doctor` prints."""
        return {name.upper(): _shown(name, getattr(self, name)) for name in type(self).model_fields}


def _shown(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, SecretStr):
        return _masked(value.get_secret_value()) if name.endswith(("_url", "_backend")) else "***"
    if isinstance(value, dict):
        return fleets.text_of(value)
    if isinstance(value, tuple):
        return ",".join("=".join(item) if isinstance(item, tuple) else str(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _masked(text: str) -> str:
    """A URL without its password."""
    parts = urlsplit(text)
    if not parts.hostname:
        return "***"
    user = f"{parts.username or ''}:***@" if parts.password or parts.username else ""
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{user}{parts.hostname}{port}{parts.path}"


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings from `environ` (default: this process's environment).

    Raises SettingsError with every fault in one message.
    """
    given = dict(os.environ if environ is None else environ)
    values, faults = _from_files(given)
    folder = Path(values.get("DEV_HOPS_DIR") or DEFAULT_DIR).expanduser()
    values["DEV_HOPS_DIR"] = str(folder)
    if not values.get("DATABASE_URL"):
        values = _of_running_up(folder) | {name: value for name, value in values.items() if value}
    known = {name: values[name.upper()] for name in Settings.model_fields if values.get(name.upper())}
    try:
        settings = Settings.model_validate(known)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        faults += [_fault(dict(item), values) for item in found]
        wrong = {item["loc"][0] for item in found}
        wrong |= {"dev_hops_fleet"} if "dev_hops_fleets" in wrong else set()  # nothing to judge it by
        settings = Settings.model_validate({name: value for name, value in known.items() if name not in wrong})
    faults += _contradictions(settings)
    if faults:
        raise errors.SettingsError("\n".join(faults))
    return settings


def _from_files(given: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The environment with each `NAME_FILE` replaced by the content of that file, and what is wrong with those files."""
    values, faults = dict(given), []
    for name in (field.upper() for field in Settings.model_fields):
        path = given.get(f"{name}_FILE")
        if not path:
            continue
        if given.get(name):
            faults.append(f"{name} and {name}_FILE are both set: keep one of them")
            continue
        try:
            values[name] = Path(path).read_text(encoding="utf-8").strip()
            if not values[name]:
                faults.append(f"{name}_FILE is {path}: it is empty; write the value into it, or leave the name unset")
        except (OSError, UnicodeDecodeError) as error:
            faults.append(
                f"{name}_FILE is {path}: it cannot be read ({type(error).__name__}); name a readable text file"
            )
    return values, faults


def _of_running_up(folder: Path) -> dict[str, str]:
    """What a running `dev-hops up` in `folder` left for others, empty where none runs."""
    try:
        content: Any = json.loads((folder / "env.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in content.items()} if isinstance(content, dict) else {}


def _contradictions(settings: Settings) -> list[str]:
    """What the performance profile finds wrong, in the names of the environment, and a fleet that is none."""
    fault = settings.fleet_fault() if "dev_hops_fleet" in settings.model_fields_set else None
    found = [] if fault is None else [fault]
    if settings.autoscale_token is not None and settings.autoscale_token == settings.api_token:
        found.append("AUTOSCALE_TOKEN is ***: it is API_TOKEN too, which opens everything; give another one")
    try:
        settings.profile  # noqa: B018 - building it is the check
    except ProfileError as error:
        found += [PROFILE_NAMES.get(line.split(" ")[0], "") + line for line in str(error).splitlines()]
    return found


def _fault(item: Mapping[str, Any], values: Mapping[str, str]) -> str:
    """One line for one fault: name, value unless it is a secret, remedy."""
    name = str(item["loc"][0]).upper()
    annotation = str(Settings.model_fields[name.lower()].annotation)
    shown = re.sub(r"//[^/\s,]*@", "//***@", values.get(name, ""))
    value = "***" if "SecretStr" in annotation else repr(shown)
    return f"{name} is {value}: {str(item['msg']).removeprefix('Value error, ')}"


def variable(name: str) -> str | None:
    """The variable of the environment that a person named to give a secret by; None where it is not set."""
    return os.environ.get(name)


def role_environment(changes: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with `changes`: for a program that takes its place or that it starts.

    A change takes the place of the file that would give the same name.
    """
    replaced = {f"{name}_FILE" for name in changes}
    return {**{name: value for name, value in os.environ.items() if name not in replaced}, **changes}


def renewals() -> Counter[str]:
    """How often this process has begun anew under the same pid, by reason. Not a setting: it speaks to its next life."""
    words = (item.partition("=") for item in os.environ.get(RENEWALS, "").split(",") if item)
    return Counter({reason: int(count) for reason, _, count in words if count.isdecimal()})


def renewed_environment(reason: str) -> dict[str, str]:
    """This process's environment for its next life, which begins for `reason`."""
    counted = renewals() + Counter([reason])
    return role_environment({RENEWALS: ",".join(f"{name}={count}" for name, count in sorted(counted.items()))})


STORE_NAMES = (
    "DATABASE_URL",
    "REDIS_URL",
    "CELERY_BROKER_URL",
    "CELERY_RESULT_BACKEND",
    "CLICKHOUSE_URL",
    "CREDENTIAL_KEYS",
)


def shadowing_names() -> list[str]:
    """The names of stores that this process's environment sets, which verbs beside a running `up` would obey."""
    return [name for name in STORE_NAMES if os.environ.get(name)]


def own_environment(defaults: Mapping[str, str], changes: Mapping[str, str]) -> dict[str, str]:
    """An environment for a role on stores of our own: this process's, without the stores and secrets that it names.

    `defaults` give way to what the environment sets, `changes` do not. An unset autoscale or queue list stays unset.
    """
    secret = {f"{name}_FILE" for name in (field.upper() for field in Settings.model_fields)} | set(STORE_NAMES)
    kept = {
        name: value for name, value in os.environ.items() if name not in secret and not name.startswith("PG") and value
    }
    return {**defaults, **kept, **changes}
