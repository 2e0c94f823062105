"""The demo of `up`: a generated GitHub on this machine with small limits, so that one sees a provider being respected.

It is a role like the others. Its world is the same at each start: the moment at which it was first asked for is kept.
"""

import json
import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from urllib.error import HTTPError, URLError
from urllib.request import urlopen
from uuid import UUID, uuid4

from worker_app import errors, runtime
from worker_app.credentials import adding
from worker_app.credentials.kinds import GitHubToken
from worker_app.demo.credentials import TOKEN
from worker_app.demo.limits import Rules
from worker_app.embedded.folder import Folder, replace_file
from worker_app.embedded.supervisor import Role
from worker_app.gate.key import Priority
from worker_app.providers import registry
from worker_app.providers.connections import Caller
from worker_app.records import Source
from worker_app.secret import Secret
from worker_app.store import credentials as credential_rows
from worker_app.store import runs, sources
from worker_app.store.sources import Org
from worker_app.sync import orders
from worker_app.vault import RingKeys, Vault

HOST = "github.localhost"
BEGUN = "demo.json"  # keeps since when there is a demo in a folder
ORG, ACCOUNT, CREDENTIAL = "demo", "acme", "demo"
PORT = 8090
SCHEDULE = "H/5 * * * *"
# Small enough that a newcomer meets both limits within a minute: the quota, and too many requests at once.
RULES = Rules(core=45, graphql=45, period=30, concurrency=5, retry_after=12)
WORLD = ("--repositories", "4", "--pull-requests", "60", "--live", "15", "--latency", "0.05", "0.15")


def require(*, stores_only: bool) -> None:
    """Raises UsageError where the stores alone are asked for, or the demo's extra is not installed."""
    if stores_only:
        raise errors.UsageError("--demo and --stores exclude each other: the stores alone sync nothing")
    if find_spec("graphql") is None:
        raise errors.UsageError("--demo needs the extra `demo`: pip install 'dev-hops[demo]'")


def is_in(folder: Folder) -> bool:
    """Whether the folder has the demo's sources: without the demo their syncs would fail."""
    return (folder.path / BEGUN).exists()


def introduction(command: str) -> str:
    """What a newcomer is told before the first sync; `command` is how `dev-hops` is typed here."""
    return (
        f"the demo's GitHub allows {RULES.core} requests in {RULES.period} s and {RULES.concurrency} at once, so the first sync "
        f"of its organisation meets both limits; `{command} gate list` and the status page show what is closed, and until when"
    )


def role(folder: Folder, port: int) -> Role:
    """The process that is GitHub."""
    until = _begun_at(folder).strftime("%Y-%m-%dT%H:%M:%S")
    argv = [sys.executable, "-m", "worker_app.demo", "--port", str(port), "--until", until, *_limits(RULES), *WORLD]
    return Role("github", argv, {}, port, lambda: _answers(port))


def add_sources(opened: runtime.Runtime) -> list[UUID]:
    """The demo's organisation with its credential, sources and schedule where they are not there; a run of each source now.

    Returns the runs. Raises ProviderFault where the demo does not answer.
    """
    org, is_new = _org(opened)
    found = _sources(opened, org)
    if is_new:
        least = opened.settings.schedule_min_interval_seconds
        orders.add_provider_sync(opened.postgres, org, "github", cron_line=SCHEDULE, tz="UTC", least_seconds=least)
    begun = []
    for source in found:
        try:
            with opened.postgres.transaction() as tx:
                begun.append(runs.add_manual(tx, org.id, "github", source.id, uuid4()))
        except errors.Conflict:  # one is at work already
            continue
    return begun


def _limits(rules: Rules) -> list[str]:
    told = {
        "core": rules.core,
        "graphql": rules.graphql,
        "period": rules.period,
        "concurrency": rules.concurrency,
        "retry-after": rules.retry_after,
    }
    return [word for name, value in told.items() for word in (f"--{name}", str(value))]


def _begun_at(folder: Folder) -> datetime:
    path = folder.path / BEGUN
    if not path.exists():
        now = datetime.now(UTC).replace(microsecond=0)
        replace_file(path, json.dumps({"until": now.isoformat()}).encode())
    return datetime.fromisoformat(json.loads(path.read_bytes())["until"])


def _org(opened: runtime.Runtime) -> tuple[Org, bool]:
    with opened.postgres.transaction() as tx:
        known = next((item for item in sources.orgs(tx) if item.name == ORG), None)
        return (known, False) if known else (sources.add_org(tx, ORG, "UTC"), True)


def _sources(opened: runtime.Runtime, org: Org) -> list[Source]:
    with opened.postgres.transaction() as tx:
        known = sources.sources(tx, org.id, "github")
    if known:
        return known
    github = registry.provider("github")
    assert github.find is not None
    chosen = _credential(opened, org)
    caller = Caller(org.id, HOST, chosen.id, priority=Priority.INTERACTIVE)
    found = list(github.find(opened.connections, caller, github.named(f"{HOST}/{ACCOUNT}")))
    with opened.postgres.transaction() as tx:
        return [
            sources.set_credential(
                tx, sources.add_source(tx, org.id, "github", HOST, item.external_name, item.ext_id), chosen.id
            )
            for item in found
        ]


def _credential(opened: runtime.Runtime, org: Org) -> credential_rows.Entry:
    with opened.postgres.transaction() as tx:
        for known in credential_rows.entries(tx, org.id):
            if known.name == CREDENTIAL:
                return known
        sealer = Vault(RingKeys(opened.settings.require_credential_keys()))
        token = GitHubToken(HOST, Secret(TOKEN))
        return adding.add(tx, sealer, token, org_id=org.id, name=CREDENTIAL, created_by="dev-hops up --demo")


def _answers(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/user", timeout=2) as answer:
            return bool(answer.status == 200)
    except HTTPError:  # it asks for a token, so it is there
        return True
    except (URLError, OSError):
        return False
