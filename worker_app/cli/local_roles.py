"""The processes of one `dev-hops up`: their command lines, their environments, and how to see that each takes work."""

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from worker_app import api_urls as named_urls
from worker_app import settings
from worker_app.cli import roles
from worker_app.embedded import folder as folders
from worker_app.embedded.folder import Folder
from worker_app.embedded.ports import Ports
from worker_app.embedded.stores import StoreAddresses, Stores
from worker_app.embedded.supervisor import Role

FLOWER_USER = "dev-hops"
DEFAULTS = {  # what suits one machine; the environment may say otherwise
    "LOG_FORMAT": "text",
    "OUTBOX_POLL_SECONDS": "1",
    "DISPATCH_INTERVAL_SECONDS": "60",
    "RESCUE_INTERVAL_SECONDS": "15",
    "BATCH_LEASE_SECONDS": "30",
    "WORKER_SILENT_SECONDS": "60",
    "SCHEMA_WAIT_SECONDS": "10",
}
RECKONED = (  # what explains a fleet reckons as the fleet does
    *(name for name in DEFAULTS if name != "LOG_FORMAT"),
    "SYNC_CONCURRENCY_PER_PROVIDER",
    "OUTBOX_MAX_DEPTH",
    "VISIBILITY_TIMEOUT_SECONDS",
)
NO_KEYS = {"CREDENTIAL_KEYS": ""}  # of roles that call no provider
BUILT_IN_FLEETS = {"DEV_HOPS_FLEETS": "", "DEV_HOPS_FLEET": ""}  # a map of the environment is of other machines
FLEETS = (
    ("worker", "20,2", "4"),
    ("worker-ingest", "", "1"),
    ("worker-heavy", "", "4"),
)  # name, autoscale, concurrency


def public_environment(
    folder: Folder, addresses: StoreAddresses, stores: Stores, api_urls: Mapping[str, str]
) -> dict[str, str]:
    """What points other programs at this `up`. `redis-cli` takes its password from REDISCLI_AUTH.

    `api_urls`: where the API of a host is, beside those that the environment names.
    """
    secrets, chosen = folder.secrets(), settings.own_environment(DEFAULTS, {})
    named = dict(named_urls.parse(chosen.get("PROVIDER_API_URLS", ""))) | dict(api_urls)
    return {
        "DATABASE_URL": addresses.database_url.replace("+psycopg2", "", 1),  # as psql reads it too
        "REDIS_URL": addresses.redis_url,
        "REDISCLI_AUTH": secrets.valkey,
        "REDIS_PORT": str(stores.valkey.port),
        "API_TOKEN": secrets.api_token,
        "CREDENTIAL_KEYS": secrets.credential_keys,
        "PROVIDER_API_URLS": ",".join(f"{host}={url}" for host, url in named.items()),
        "GIT_ALLOW_FILE": "true",
        "GIT_MIRRORS_DIR": str(folder.path / "mirrors"),
        "DEV_HOPS_DIR": str(folder.path),
        **{name: chosen[name] for name in RECKONED if name in chosen},
    }


def roles_of(
    folder: Folder, public: dict[str, str], secrets: folders.Secrets, ports: Ports, api_port: int, flower_port: int
) -> list[Role]:
    """Every role of one machine, on the stores that `public` names."""

    def prepared(
        name: str, port: int | None, changes: dict[str, str], argv: Callable[[settings.Settings], list[str]]
    ) -> Role:
        run_dir = folder.path / "run" / name
        (run_dir / "worker.ready").unlink(missing_ok=True)
        (run_dir / "beat.alive").unlink(missing_ok=True)
        telemetry = {} if port is not None else {"METRICS_HOST": "127.0.0.1", "METRICS_PORT": str(ports.take())}
        own = {**public, **telemetry, **BUILT_IN_FLEETS, "RUN_DIR": str(run_dir)}
        environment = settings.own_environment(DEFAULTS, own | changes)
        sign = None if port is not None else run_dir / ("beat.alive" if name == "beat" else "worker.alive")
        return Role(name, argv(settings.load(environment)), environment, port, _readiness(name, run_dir, port), sign)

    found = []
    for fleet, autoscale, concurrency in FLEETS:
        changes = {
            "DEV_HOPS_FLEET": fleet,
            "CELERY_POOL": "gevent",
            "CELERY_AUTOSCALE": autoscale,
            "CELERY_CONCURRENCY": concurrency,
            "CELERY_QUEUES": "",
            "WORKER_SEND_TASK_EVENTS": "true",
        }
        found.append(prepared(fleet, None, changes, roles.worker_argv))
    api = {"API_HOST": "127.0.0.1", "API_PORT": str(api_port), "API_TOKEN": secrets.api_token, **NO_KEYS}
    flower = {
        **NO_KEYS,
        "FLOWER_HOST": "127.0.0.1",
        "FLOWER_PORT": str(flower_port),
        "FLOWER_BASIC_AUTH": f"{FLOWER_USER}:{secrets.flower}",
    }
    return [
        *found,
        prepared("beat", None, NO_KEYS, lambda _: roles.beat_argv()),
        prepared("api", api_port, api, lambda _: roles.api_argv()),
        prepared("flower", flower_port, flower, roles.flower_argv),
    ]


def _readiness(name: str, run_dir: Path, port: int | None) -> Callable[[], bool]:
    if port is not None:
        path = "livez" if name == "api" else "healthcheck"
        return lambda: _answers(f"http://127.0.0.1:{port}/{path}")
    sign = run_dir / ("beat.alive" if name == "beat" else "worker.ready")
    return sign.exists


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:  # noqa: S310 - a constant scheme and host
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
