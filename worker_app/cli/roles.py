"""Roles: one process of the fleet each, as in the image, and the probe beside them.

One place builds the command line of a worker. Celery patches for gevent only when the pool stands on its own command line,
so `dev-hops worker` replaces itself by Celery and passes exactly one of autoscale and concurrency.
"""

import os
import sys
import time
from pathlib import Path
from typing import NoReturn
from urllib.error import URLError
from urllib.request import urlopen

import click

from worker_app import errors, settings, telemetry_children
from worker_app.cli import exits, output
from worker_app.settings import Settings

FLOWER_TASKS = 10_000  # kept in memory; Flower's own 100,000 eat it
FLOWER_PURGE_SECONDS = 600
ROLES = ("worker", "beat", "api", "flower")


def worker_argv(chosen: Settings) -> list[str]:
    """Celery's command line for a worker with these settings. A set autoscale wins over the concurrency."""
    if chosen.celery_autoscale:
        slots = ["--autoscale", "{},{}".format(*chosen.celery_autoscale)]
    else:
        slots = ["--concurrency", str(chosen.celery_concurrency)]
    return [
        *_celery("worker_app"),
        "worker",
        "--pool",
        chosen.celery_pool,
        *slots,
        "--queues",
        ",".join(chosen.consumed_queues),
        "--hostname",
        f"{chosen.worker_name or chosen.dev_hops_fleet}@%h",
        "--without-gossip",
        "--without-mingle",
    ]


def beat_argv() -> list[str]:
    """Celery's command line for beat: the fenced scheduler, no schedule file and no pid file."""
    return [*_celery("worker_app"), "beat", "--scheduler", "worker_app.beat.FencedScheduler", "--pidfile", ""]


def flower_argv(chosen: Settings) -> list[str]:
    """Celery's command line for Flower; its credentials travel in the environment."""
    return [
        *_celery("worker_app.flower"),
        "flower",
        f"--address={chosen.flower_host}",
        f"--port={chosen.flower_port}",
        f"--max_tasks={FLOWER_TASKS}",
        f"--purge_offline_workers={FLOWER_PURGE_SECONDS}",
        f"--read_only={str(chosen.flower_read_only).lower()}",
    ]


def api_argv() -> list[str]:
    """The command line of the API: it patches before it imports anything."""
    return [sys.executable, "-m", "worker_app.api"]


def _celery(app: str) -> list[str]:
    return [sys.executable, "-m", "celery", "--app", app]


@click.command()
@click.option(
    "--fleet", help="One of DEV_HOPS_FLEETS: worker, worker-ingest, worker-heavy unless named; DEV_HOPS_FLEET."
)
@click.option("--pool", help="gevent or prefork; CELERY_POOL.")
@click.option("--autoscale", help="Slots as MAX,MIN, for example 20,2; wins over --concurrency; CELERY_AUTOSCALE.")
@click.option("--concurrency", help="Slots; CELERY_CONCURRENCY.")
@click.option("--queues", help="Queues, separated by commas; those of the fleet unless given; CELERY_QUEUES.")
@click.option("--name", help="Name before @HOST, when several workers of a fleet share a host; WORKER_NAME.")
def worker(
    fleet: str | None,
    pool: str | None,
    autoscale: str | None,
    concurrency: str | None,
    queues: str | None,
    name: str | None,
) -> None:
    """Run one worker of a fleet. An empty option counts as not given."""
    given = {
        "DEV_HOPS_FLEET": fleet,
        "CELERY_POOL": pool,
        "CELERY_AUTOSCALE": autoscale,
        "CELERY_CONCURRENCY": concurrency,
        "CELERY_QUEUES": queues,
        "WORKER_NAME": name,
    }
    environment = settings.role_environment({name: value for name, value in given.items() if value})
    chosen = settings.load(environment)
    chosen.require_database()
    argv = worker_argv(chosen)
    _replace(argv, environment | _children_environment(chosen), chosen, "worker")


def _children_environment(chosen: Settings) -> dict[str, str]:
    """Where the children of prefork count, so that their parent can tell it: an empty folder; nothing for other pools.

    Raises SettingsError where it cannot be written.
    """
    if chosen.celery_pool != "prefork":
        return {}
    given = chosen.prometheus_multiproc_dir
    try:
        folder = given or telemetry_children.new_folder()
        telemetry_children.clear(folder)
    except OSError as error:
        raise errors.SettingsError(
            f"PROMETHEUS_MULTIPROC_DIR is {str(given or '')!r}: its files cannot be written ({error.strerror}); give a folder "
            "of this worker alone"
        ) from error
    return {telemetry_children.VARIABLE: str(folder)}


@click.command()
def beat() -> None:
    """Run beat: it sends the periodic tasks. Several are safe, one is enough."""
    chosen = settings.load()
    chosen.require_database()
    _replace(beat_argv(), settings.role_environment({}), chosen, "beat")


@click.command()
def api() -> None:
    """Run the HTTP door: health, telemetry, status page."""
    chosen = settings.load()
    chosen.require_database()
    _replace(api_argv(), settings.role_environment({}), chosen, "api")


@click.command()
def flower() -> None:
    """Run Flower, which shows the workers and their tasks. It needs FLOWER_BASIC_AUTH and no database."""
    chosen = settings.load()
    if chosen.flower_basic_auth is None:
        raise errors.SettingsError("FLOWER_BASIC_AUTH is not set: give user:password, or FLOWER_BASIC_AUTH_FILE")
    auth = chosen.flower_basic_auth.get_secret_value()
    if not all(all(pair.partition(":")[::2]) for pair in auth.split(",")):
        raise errors.SettingsError(
            "FLOWER_BASIC_AUTH is not user:password: give both, and no comma within, since it separates several"
        )
    _replace(flower_argv(chosen), settings.role_environment({"FLOWER_BASIC_AUTH": auth}), chosen, "flower")


def _replace(argv: list[str], environment: dict[str, str], chosen: Settings, role: str) -> NoReturn:
    """Become `argv`: no shell and no parent stands between the process and its signals."""
    try:
        chosen.run_dir.mkdir(parents=True, exist_ok=True)
        (chosen.run_dir / "role").write_text(role, encoding="utf-8")
    except OSError as error:
        output.note(f"RUN_DIR is {chosen.run_dir}: it cannot be written ({error.strerror}); probes will find nothing")
    os.execve(argv[0], argv, environment)  # noqa: S606 - a list, no shell


@click.command()
@click.argument("what", type=click.Choice(["ready", "alive"]))
@click.option("--role", type=click.Choice(ROLES), help="The role; the one that runs in RUN_DIR unless given.")
@click.option("--max-age", default=120.0, show_default=True, help="Seconds after which a sign of life is too old.")
@output.json_option
def probe(what: str, role: str | None, max_age: float, as_json: bool) -> None:
    """Say whether this container's role is ready or alive: exit 0 or 1. Looks at files, never at the broker."""
    chosen = settings.load()
    role = role or _written_role(chosen.run_dir)
    if role in ("api", "flower"):
        port, path = (
            (chosen.api_port, "livez" if what == "alive" else "readyz")
            if role == "api"
            else (chosen.flower_port, "healthcheck")
        )
        is_ok, why = _answers(f"http://127.0.0.1:{port}/{path}")
    else:
        is_ok, why = _has_sign(chosen.run_dir, role, what, max_age)
    answer = {"role": role, "what": what, "ok": is_ok, "reason": why}
    output.emit(answer, as_json=as_json, show=output.sentence(f"{role} {what}: {'ok' if is_ok else why}"))
    raise SystemExit(0 if is_ok else exits.EXIT_FAILED)


def _written_role(folder: Path) -> str:
    try:
        return (folder / "role").read_text(encoding="utf-8").strip()
    except OSError:
        return "worker"


def _has_sign(folder: Path, role: str, what: str, max_age: float) -> tuple[bool, str]:
    try:
        age = time.time() - (folder / f"{role}.alive").stat().st_mtime
    except OSError:
        return False, f"there is no {folder}/{role}.alive"
    if age > max_age:
        return False, f"its last sign of life is {age:.0f} s old"
    if what == "ready" and role != "beat" and not (folder / f"{role}.ready").exists():
        return False, "it takes no work (starting, draining, or its Redis is away)"
    return True, ""


def _answers(url: str) -> tuple[bool, str]:
    try:
        with urlopen(url, timeout=3) as answer:  # noqa: S310 - a constant scheme and host
            return answer.status == 200, f"{url} answered {answer.status}"
    except (URLError, OSError) as error:
        return False, f"{url} does not answer: {error}"


COMMANDS = (worker, beat, api, flower, probe)
