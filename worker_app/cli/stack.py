"""The whole service on this machine: `up`, `down`, `status` and `env`."""

import contextlib
import shlex
import signal
import sys
import time
from pathlib import Path

import click
import psutil
from rich.console import Console

from worker_app import errors, settings
from worker_app.cli import exits, local, local_demo, local_summary, output
from worker_app.embedded import process, supervisor
from worker_app.embedded.folder import Folder, is_alive, wait_for_end

DETACH_SECONDS = 120.0
DOWN_SECONDS = 20.0

dir_option = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of the data; DEV_HOPS_DIR, or ~/.local/share/dev-hops.",
)


def _folder(given: Path | None) -> Folder:
    return Folder(
        given.expanduser()
        if given
        else settings.load({**settings.role_environment({}), "DATABASE_URL": ""}).dev_hops_dir
    )


@click.command()
@dir_option
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the API and the status page; 8000, or a free one.")
@click.option("--git", "repository", type=click.Path(path_type=Path),
              help="Repository to sync first; the one you stand in unless given.")  # fmt: skip
@click.option("--demo", "has_demo", is_flag=True,
              help="Start a generated GitHub with small limits too, and sync an organisation of it.")  # fmt: skip
@click.option("--detach", is_flag=True, help="Return once everything runs; stop it by `dev-hops down`.")
@click.option("--stores", "stores_only", is_flag=True, help="Only the embedded Postgres and Valkey, migrated.")
@output.json_option
def up(
    folder: Path | None,
    port: int | None,
    repository: Path | None,
    has_demo: bool,
    detach: bool,
    stores_only: bool,
    as_json: bool,
) -> None:
    """Run everything on this machine: stores, workers, beat, Flower, status page; sync a repository; show its metrics.

    No root, no Docker, no network. Ctrl-C stops it all; the data stays in its folder.
    """
    settings.load(settings.own_environment({}, {}))  # what the roles would refuse is refused before anything is made
    place = _folder(folder)
    if has_demo:
        local_demo.require(stores_only=stores_only)
    wanted = local.Wanted(place, port, local.repository(repository, needed=not stores_only), stores_only, has_demo)
    if detach:
        _detached(wanted, as_json)
        return
    place.prepare()
    if not place.try_lock():
        raise errors.Conflict(
            f"`dev-hops up` runs in {place.path} already (pid {place.holder_pid()}); "
            "`dev-hops status` shows it, `dev-hops down` stops it"
        )
    place.write_env({})  # a killed `up` left its own: nobody may take this one for ready before it is
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    stack = local.Stack(wanted, console)
    for ending in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, stack.interrupt)
    try:
        stack.start()
        if as_json:
            output.emit(local_summary.summary(place), as_json=True, show=lambda _: None)
        else:
            stack.welcome()
        stack.stay()
    except KeyboardInterrupt:
        pass
    finally:
        for further in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(further, signal.SIG_IGN)
        stack.say("stopping…")
        began = time.monotonic()
        stack.stop()
        place.unlock()
        stack.say(f"stopped in {time.monotonic() - began:.1f} s; the data stays in {place.path}")


def _detached(wanted: local.Wanted, as_json: bool) -> None:
    """Start `up` in a session of its own and wait until it is ready, or show why it is not."""
    place = wanted.folder
    place.prepare()
    if holder := place.holder_pid():
        raise errors.Conflict(f"`dev-hops up` runs in {place.path} already (pid {holder}); `dev-hops down` stops it")
    place.write_env({})
    log = place.log / "up.log"
    seen = process.size_bytes(log)
    argv = [sys.executable, "-m", "worker_app.cli", "up", "--dir", str(place.path)]
    argv += ["--port", str(wanted.port)] if wanted.port else []
    argv += ["--git", str(wanted.repository)] if wanted.repository else []
    argv += ["--stores"] if wanted.stores_only else []
    argv += ["--demo"] if wanted.has_demo else []
    child = process.spawn(
        argv, log=log, directory=Path.cwd(), environment=settings.role_environment({"PYTHONUNBUFFERED": "1"})
    )
    deadline = time.monotonic() + DETACH_SECONDS
    while not (place.read_env() and place.holder_pid() == child.pid):
        if not is_alive(child):
            tail = process.last_lines(log, since_bytes=seen)
            output.note(f"`up` ended with {child.returncode}; {log} says:\n{tail}")
            raise SystemExit(child.returncode if child.returncode > 0 else exits.EXIT_FAILED)
        if time.monotonic() >= deadline:
            raise errors.TransientError(f"`up` is not ready after {DETACH_SECONDS:.0f} s; it goes on, look at {log}")
        time.sleep(0.1)
    summary = local_summary.summary(place)
    output.emit(summary, as_json=as_json, show=lambda console: local_summary.draw(console, place, summary))
    if not as_json:
        local_summary.show_secrets_once(output.person(), place)


@click.command()
@dir_option
@output.json_option
def down(folder: Path | None, as_json: bool) -> None:
    """Stop what `dev-hops up` runs in a folder; the data stays."""
    place = _folder(folder)
    holder = place.holder()
    if holder:
        with contextlib.suppress(psutil.NoSuchProcess):
            holder.terminate()
        # Its end is waited for, not its lock: what it still writes after it has given the folder back is written then.
        if wait_for_end([holder], DOWN_SECONDS):
            raise errors.TransientError(
                f"`up` (pid {holder.pid}) has not ended in {DOWN_SECONDS:.0f} s; look at {place.log}/up.log"
            )
    left = supervisor.clear_leftovers(place, keep_stores=False) if place.read_state() else ()
    if left or holder:
        place.clear_state()
    stopped = bool(holder or left)
    text = f"stopped; the data stays in {place.path}" if stopped else f"nothing runs in {place.path}"
    output.emit(
        {"stopped": stopped, "leftovers": [item.name for item in left]}, as_json=as_json, show=output.sentence(text)
    )


@click.command()
@dir_option
@output.json_option
def status(folder: Path | None, as_json: bool) -> None:
    """Show what `dev-hops up` runs in a folder; exit 1 when nothing does."""
    place = _folder(folder)
    summary = local_summary.summary(place)
    output.emit(summary, as_json=as_json, show=lambda console: local_summary.draw(console, place, summary))
    if not summary["running"]:
        raise SystemExit(exits.EXIT_FAILED)


@click.command()
@dir_option
@output.json_option
def env(folder: Path | None, as_json: bool) -> None:
    """Print the lines that point other programs at a running `up`: eval "$(dev-hops env)"."""
    place = _folder(folder)
    values = place.read_env()
    if not values:
        raise errors.UsageError(f"nothing runs in {place.path}; start it by `dev-hops up`")
    lines = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())
    output.emit(values, as_json=as_json, show=lambda _: click.echo(lines))


COMMANDS = (up, down, status, env)
