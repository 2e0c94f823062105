"""`credentials check`: who a credential is at its provider, and what it may see, asked in one call through the gate."""

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta

import click
from rich.console import Console

from worker_app import errors, secret
from worker_app.cli import context, exits, output
from worker_app.cli.credentials import credentials_group
from worker_app.cli.directory import org_option
from worker_app.gate.key import Priority
from worker_app.providers import identities
from worker_app.providers.connections import Caller
from worker_app.providers.identity import Identity
from worker_app.records import Source
from worker_app.runtime import Runtime
from worker_app.store import credentials as rows
from worker_app.store import sources
from worker_app.store.postgres import Transaction


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found. The field names are public."""

    credential: str
    provider: str
    host: str
    kind: str
    version: int
    account: str | None = None
    scopes: tuple[str, ...] | None = None  # None: the provider does not tell
    missing: tuple[str, ...] = ()  # scopes that our reading needs
    expires_at: datetime | None = None
    notes: tuple[str, ...] = ()
    ok: bool = False
    reason: str | None = None  # why not


@credentials_group.command("check")
@click.argument("credential")
@click.option("--source", "source_name", help="git: the source (name or id) to ask for; else one that names it.")
@org_option
@output.json_option
def check_credential(credential: str, source_name: str | None, org_name: str | None, as_json: bool) -> None:
    """Ask the provider once who CREDENTIAL (name or id) is, what it may see, and which scopes our reading lacks.

    Exit codes: 0 good, 1 refused or scopes are missing, 2 no such credential, 75 its gate is closed or the provider is away.
    """
    with context.opened() as runtime:
        with runtime.postgres.transaction() as tx:
            entry = rows.entry(tx, credential, sources.org(tx, org_name).id if org_name else None)
            source = _source(tx, entry, source_name)
        found, code = _checked(runtime, entry, source)
    output.emit(found, as_json=as_json, show=lambda console: _draw(console, found))
    if code:
        raise SystemExit(code)


def _source(tx: Transaction, entry: rows.Entry, name: str | None) -> Source | None:
    """The source that a credential of git is asked about. Raises UsageError where there is none, or it is on another host."""
    if entry.provider != "git":
        if name is not None:
            raise errors.UsageError(
                f"--source is for credentials of git, and this one is of {entry.provider}: leave it out"
            )
        return None
    if name is not None:
        chosen = sources.source(tx, name, entry.org_id)
        if (chosen.provider, chosen.host) != (entry.provider, entry.host):
            raise errors.UsageError(
                f"source {chosen.external_name} is on {chosen.host} ({chosen.provider}), and the credential is for {entry.host} "
                "(git): name one that it may be sent to"
            )
        return chosen
    naming = [source for source in sources.sources(tx, entry.org_id) if source.credential_id == entry.id]
    if not naming:
        raise errors.UsageError(
            f"no source names credential {entry.name!r}, and git can only be asked about one: give --source, or add one with "
            f"`dev-hops sources add ADDRESS --credential {entry.name}`"
        )
    return naming[0]


def _checked(runtime: Runtime, entry: rows.Entry, source: Source | None) -> tuple[Checked, int]:
    """What came of it, and the exit code. Raises StoreAway and SettingsError: they say nothing of the credential."""
    unknown = Checked(entry.name, entry.provider, entry.host, entry.kind, entry.version)
    caller = Caller(entry.org_id, entry.host, entry.id, priority=Priority.INTERACTIVE)
    try:
        identity = identities.identity(runtime.connections, caller, source)
    except (errors.StoreAway, errors.SettingsError, errors.UsageError):
        raise
    except errors.RateLimited as closed:
        return replace(unknown, reason=_closed(closed)), exits.EXIT_LATER
    except (errors.Deferral, errors.TransientError) as later:
        return replace(unknown, reason=secret.redacted(str(later))), exits.EXIT_LATER
    except errors.PermanentError as refused:
        return replace(unknown, reason=secret.redacted(str(refused))), exits.EXIT_FAILED
    told = {item.name: getattr(identity, item.name) for item in fields(Identity)}
    reason = _lacks(entry, identity)
    return replace(unknown, **told, ok=reason is None, reason=reason), exits.EXIT_FAILED if reason else 0


def _closed(closed: errors.RateLimited) -> str:
    until = datetime.now(UTC) + timedelta(seconds=closed.retry_in)
    return (
        f"the gate of {closed.provider} at {closed.host} is closed until {until:%Y-%m-%d %H:%M:%SZ} ({closed.reason}); "
        "`dev-hops gate show` says more"
    )


def _lacks(entry: rows.Entry, identity: Identity) -> str | None:
    if not identity.missing:
        return None
    return (
        f"it lacks {', '.join(identity.missing)}: give it that at {entry.host}, or give it a new secret with "
        f"`dev-hops credentials add {entry.name} --provider {entry.provider} --host {entry.host} --replace`"
    )


def _draw(console: Console, found: Checked) -> None:
    scopes = "the provider does not tell" if found.scopes is None else found.scopes
    lines = [
        ("credential", f"{found.credential} ({found.kind}, version {found.version}) for {found.host}"),
        ("account", found.account),
        ("may see", scopes if found.account else None),
        ("missing", found.missing or None),
        ("ends", found.expires_at),
    ]
    for name, value in lines:
        if value is not None:
            console.print(f"{name + ':':<12}{output.cell(value)}", markup=False)
    for note in found.notes:
        console.print(f"{'':<12}{note}", markup=False)
    console.print("it is good" if found.ok else f"it is not good: {found.reason}", markup=False)
