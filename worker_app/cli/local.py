"""Local: one `dev-hops up` from its first line to its last, with the first source that it adds for a newcomer."""

import contextlib
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID, uuid4

from rich.console import Console

from worker_app import errors, jobs, runtime, settings
from worker_app.cli import local_demo, local_roles, local_summary, progress
from worker_app.cli import metrics as metrics_view
from worker_app.embedded.folder import Folder
from worker_app.embedded.ports import Ports
from worker_app.embedded.stores import Stores
from worker_app.embedded.supervisor import Supervisor
from worker_app.migrate.postgres import migrate_postgres
from worker_app.providers import git
from worker_app.records import Source
from worker_app.store import runs, sources
from worker_app.store.runs import RunView
from worker_app.sync import orders

API_PORT, FLOWER_PORT = 8000, 5555
FIRST_ORG = "local"
FIRST_SCHEDULE = "H/15 * * * *"
LOOK_SECONDS = 0.5  # between two looks at what has died
FIRST_DAYS = 12  # shown after the first syncs, of all repositories together
METRICS_SECONDS = 60.0  # to wait for the first metrics after the first sync


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was asked of `up`."""

    folder: Folder
    port: int | None
    repository: Path | None
    stores_only: bool
    has_demo: bool = False


def repository(given: Path | None, *, needed: bool) -> Path | None:
    """The top of the repository that was named, or of the one around the working directory; None where there is none.

    Raises UsageError for a named path that does not exist.
    """
    if not needed:
        return None
    if given is not None:
        path = given.expanduser().resolve()
        if not path.exists():
            raise errors.UsageError(
                f"--git is {str(given)!r}: there is no such folder; name a repository on this machine"
            )
        return path
    command = ["git", "rev-parse", "--show-toplevel"]  # git itself knows whether this is a repository
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=10)
    except FileNotFoundError:
        raise errors.UsageError(
            "git is not installed: workers read repositories with it; install git 2.32 or newer"
        ) from None
    return Path(found.stdout.strip()).resolve() if found.returncode == 0 else None


class Stack:
    """One `up` from its first line to its last."""

    def __init__(self, wanted: Wanted, console: Console) -> None:
        self.wanted = wanted
        self.folder = wanted.folder
        self.has_demo = wanted.has_demo or (not wanted.stores_only and local_demo.is_in(wanted.folder))
        self.console = console
        self.stores = Stores(self.folder)
        self.ports = Ports()
        self.supervisor = Supervisor(self.folder, self.stores, self.say)
        self.run_ids: list[UUID] = []
        self.environment: dict[str, str] = {}
        self.over = threading.Event()
        self.is_interrupted = False
        self.watcher = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def say(self, text: str) -> None:
        """One line for the person who watches; a terminal that is gone keeps nothing from being stopped."""
        with contextlib.suppress(OSError):
            self.console.print(text, markup=False)

    def start(self) -> None:
        """Stores, schema, roles, first source, first run; then the folder tells others how to reach them."""
        began = time.monotonic()
        self.say(f"dev-hops in {self.folder.path}")
        if shadowing := settings.shadowing_names():
            self.say(f"your shell sets {', '.join(shadowing)}: this `up` does not use it, but verbs typed there will")
        addresses = self.supervisor.start_stores()
        migrate_postgres(addresses.database_url, self.say)
        demo_port = self._port(local_demo.PORT, "the demo's GitHub") if self.has_demo else None
        api_urls = {} if demo_port is None else {local_demo.HOST: f"http://127.0.0.1:{demo_port}"}
        self.environment = local_roles.public_environment(self.folder, addresses, self.stores, api_urls)
        if not self.wanted.stores_only:
            secrets = self.folder.secrets()
            api_port = self._port(self.wanted.port or API_PORT, "the API")
            flower_port = self._port(FLOWER_PORT, "Flower")
            specs = local_roles.roles_of(self.folder, self.environment, secrets, self.ports, api_port, flower_port)
            shown = {"status page": f"http://127.0.0.1:{api_port}/status", "Flower": f"http://127.0.0.1:{flower_port}/"}
            self.environment |= {"API_URL": f"http://127.0.0.1:{api_port}"}
            if demo_port is not None:
                specs.insert(0, local_demo.role(self.folder, demo_port))
                shown["GitHub (demo)"] = f"http://127.0.0.1:{demo_port}"
            self.say(f"starting {', '.join(role.name for role in specs)}")
            self.supervisor.start_roles(specs, shown)
            self._first_source()
            if demo_port is not None:
                with self._opened() as opened:
                    self.run_ids += local_demo.add_sources(opened)
                self.say(local_demo.introduction(local_summary.command_for(self.folder)))
        self.watcher.start()
        self.folder.write_env(self.environment)
        self.say(f"ready after {time.monotonic() - began:.1f} s")

    def _port(self, wanted: int, what: str) -> int:
        port = self.ports.take(wanted)
        if port != wanted:
            self.say(f"port {wanted} is taken: {what} listens on {port}")
        return port

    def _first_source(self) -> None:
        """Add the repository with a schedule, unless it is there, and ask for one run now."""
        path = self.wanted.repository
        if path is None and self.has_demo:
            return
        if path is None:
            self.say(
                "you stand in no git repository: add one with `dev-hops sources add PATH`, or start with --git PATH"
            )
            return
        with self._opened() as opened:
            source = _source_for(opened, path)
            with opened.postgres.transaction() as tx:
                try:
                    self.run_ids.append(runs.add_manual(tx, source.org_id, source.provider, source.id, uuid4()))
                except errors.Conflict as busy:
                    self.say(str(busy))

    def _opened(self) -> "_Opened":
        return _Opened(settings.load(self.environment))

    def welcome(self) -> None:
        """Follow the first runs, show the first metrics and the addresses."""
        found = local_summary.summary(self.folder)
        if self.run_ids:
            with self._opened() as opened:
                self._first_metrics(opened, [self._follow(opened, run_id) for run_id in self.run_ids])
        local_summary.draw(self.console, self.folder, found)
        local_summary.show_secrets_once(self.console, self.folder)
        self.say("Ctrl-C stops everything; the data stays.")

    def _follow(self, opened: runtime.Runtime, run_id: UUID) -> RunView:
        view = progress.follow(opened, run_id)
        if view.error:
            self.say(f"the sync of {view.source} is {view.state}: {view.error}")
        return view

    def _first_metrics(self, opened: runtime.Runtime, followed: Sequence[RunView]) -> None:
        metrics_runs = {jobs.metrics_run_id(view.id) for view in followed}
        deadline = time.monotonic() + METRICS_SECONDS
        while metrics_runs and time.monotonic() < deadline:
            with opened.postgres.transaction() as tx:
                found = [view for run_id in metrics_runs for view in runs.views(tx, run_id=run_id)]
            metrics_runs -= {view.id for view in found if view.finished_at is not None}
            time.sleep(0.2)
        with opened.postgres.transaction() as tx:
            orgs = [sources.org(tx, name) for name in sorted({view.org for view in followed})]
            rows = [row for org in orgs for row in opened.metrics.read(tx, org.id, grain="repo")]
            names = metrics_view.names_of(source for org in orgs for source in sources.sources(tx, org.id))
        days = max(3, FIRST_DAYS // len(followed))
        metrics_view.draw(Console(stderr=True, highlight=False), rows, "repo", days=days, names=names)

    def _watch(self) -> None:
        while not self.over.wait(LOOK_SECONDS):
            try:
                self.supervisor.look()
            except errors.DevHopsError as error:
                self.say(f"cannot be started again yet: {error}")

    def interrupt(self, *_: object) -> None:
        """Handle a signal. Python drops what is raised while a destructor runs, so that it is noted first: `stay` looks."""
        self.is_interrupted = True
        raise KeyboardInterrupt

    def stay(self) -> None:
        """Wait until somebody says stop; the watcher keeps everything running meanwhile."""
        while not self.is_interrupted and not self.over.wait(LOOK_SECONDS):
            pass

    def stop(self) -> None:
        """Stop everything, within ten seconds."""
        self.over.set()
        if self.watcher.is_alive():
            self.watcher.join()
        self.supervisor.stop()
        self.ports.close()


class _Opened:
    """A runtime on the stores of this `up`, closed at the end of the block."""

    def __init__(self, chosen: settings.Settings) -> None:
        self._runtime = runtime.build(chosen, role="up")

    def __enter__(self) -> runtime.Runtime:
        return self._runtime

    def __exit__(self, *_: object) -> None:
        self._runtime.close()


def _source_for(opened: runtime.Runtime, path: Path) -> Source:
    host, ext_id = git.identity(str(path))
    with opened.postgres.transaction() as tx:
        org = next((item for item in sources.orgs(tx) if item.name == FIRST_ORG), None) or sources.add_org(
            tx, FIRST_ORG, "UTC"
        )
        known = [item for item in sources.sources(tx, org.id, "git") if item.ext_id == ext_id]
        source = known[0] if known else sources.add_source(tx, org.id, "git", host, str(path), ext_id)
    if not known:
        least = opened.settings.schedule_min_interval_seconds
        orders.add_sync(opened.postgres, source, cron_line=FIRST_SCHEDULE, tz="UTC", least_seconds=least)
    return source
