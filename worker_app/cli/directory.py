"""Organisations and their sources."""

from dataclasses import replace
from uuid import UUID

import click

from worker_app import errors
from worker_app.cli import context, output
from worker_app.gate.key import Priority
from worker_app.providers import registry
from worker_app.providers.connections import Caller
from worker_app.records import Source
from worker_app.runtime import Runtime
from worker_app.store import credentials, sources
from worker_app.sync import cron

org_option = click.option("--org", "org_name", help="Organisation, by name or id; may be left out where there is one.")


@click.group()
def orgs() -> None:
    """Organisations: whose data it is, and the time zone in which their days begin."""


@orgs.command("add")
@click.argument("name")
@click.option("--tz", default="UTC", show_default=True, help="IANA time zone, for example Europe/Berlin.")
@output.json_option
def add_org(name: str, tz: str, as_json: bool) -> None:
    """Add an organisation."""
    cron.check_zone(tz)
    if not name.strip() or not name.isprintable():
        raise errors.UsageError(f"organisation is {name!r}: give a name of printable characters")
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        added = sources.add_org(tx, name, tz)
    output.emit(added, as_json=as_json, show=output.sentence(f"organisation {added.name} added ({added.id})"))


@orgs.command("list")
@output.json_option
def list_orgs(as_json: bool) -> None:
    """List the organisations."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        found = sources.orgs(tx)
    rows = [(item.name, item.tz, item.id) for item in found]
    empty = "no organisation yet; add one with `dev-hops orgs add NAME`"
    output.emit(found, as_json=as_json, show=output.table("ORGANISATION", "TIME ZONE", "ID", rows=rows, empty=empty))


@click.group("sources")
def sources_group() -> None:
    """Sources: the repositories, projects and teams that are synced."""


@sources_group.command("add")
@click.argument("name")
@click.option("--provider", default="git", show_default=True, help="git or github.")
@click.option("--credential", help="Read it with this credential (name or id); without one, as anybody may.")
@org_option
@output.json_option
def add_source(name: str, provider: str, credential: str | None, org_name: str | None, as_json: bool) -> None:
    """Add a source: NAME is a clone address (https or ssh) or, beside `dev-hops up`, a path on this machine.

    Of GitHub it is a repository, acme/api, or an account, acme, for all its repositories that are not there yet; GitHub is
    asked, so what cannot be read is refused here.
    """
    known = registry.provider(provider)
    named = known.named(name)
    with context.opened() as runtime:
        if named.host == "localhost" and not runtime.settings.git_allow_file:
            raise errors.UsageError(
                f"source is {name!r}, a path: workers read paths only where GIT_ALLOW_FILE is true, as in `dev-hops up`; "
                "give the clone address, or set it on the workers too"
            )
        with runtime.postgres.transaction() as tx:
            org = sources.org(tx, org_name)
            chosen = None if credential is None else credentials.entry(tx, credential, org.id, provider, named.host)
        known.check_kind(named.external_name, chosen.kind if chosen else None)
        if named.ext_id is not None:
            found = [registry.Found(named.external_name, named.ext_id)]
        else:
            found = _asked(runtime, known, named, Caller(org.id, named.host, chosen.id if chosen else None))
        is_whole_account = named.ext_id is None and "/" not in named.external_name
        added = [
            source
            for item in found
            if (source := _added(runtime, org.id, provider, named.host, item, chosen, may_exist=is_whole_account))
        ]
    if is_whole_account:
        _tell_account(named, found, added, as_json=as_json)
        return
    (one,) = added
    text = f"source {one.external_name} added; sync it now with `dev-hops sync {one.id}`, or add a schedule"
    output.emit(one, as_json=as_json, show=output.sentence(text))


def _asked(opened: Runtime, known: registry.Provider, named: registry.Named, caller: Caller) -> list[registry.Found]:
    """What the provider says there is. Raises UsageError where that is nothing to be read."""
    assert known.find is not None
    try:
        return list(known.find(opened.connections, replace(caller, priority=Priority.INTERACTIVE), named))
    except errors.SourceUnavailable as error:
        raise errors.UsageError(f"on {named.host}: {error} (--credential)") from error


def _added(
    opened: Runtime,
    org_id: UUID,
    provider: str,
    host: str,
    item: registry.Found,
    chosen: credentials.Entry | None,
    *,
    may_exist: bool,
) -> Source | None:
    """The new source; None where there is one already and that is no fault."""
    with opened.postgres.transaction() as tx:
        try:
            with tx.begin_nested():
                added = sources.add_source(tx, org_id, provider, host, item.external_name, item.ext_id)
        except errors.Conflict:
            if may_exist:
                return None
            raise
        return added if chosen is None else sources.set_credential(tx, added, chosen.id)


def _tell_account(named: registry.Named, found: list[registry.Found], added: list[Source], *, as_json: bool) -> None:
    withheld = next((item.withheld for item in found if item.withheld), None)
    if withheld:
        output.note(f"not all of {named.external_name} could be listed: {withheld}")
    text = (
        f"{len(added)} of {len(found)} repositories of {named.external_name} added, the others are there already; sync them "
        f"with `dev-hops schedules add --provider github --cron 'H * * * *'`"
    )
    document = {"found": len(found), "added": added, "withheld": withheld}
    output.emit(document, as_json=as_json, show=output.sentence(text))


@sources_group.command("list")
@org_option
@output.json_option
def list_sources(org_name: str | None, as_json: bool) -> None:
    """List the sources with their state."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        org_id = sources.org(tx, org_name).id if org_name else None
        found = sources.sources(tx, org_id)
        names = {org.id: org.name for org in sources.orgs(tx)}
    rows = [
        (item.external_name, names[item.org_id], item.provider, item.host, item.state, item.state_reason, item.id)
        for item in found
    ]
    empty = "no source yet; add one with `dev-hops sources add ADDRESS`"
    show = output.table("SOURCE", "ORGANISATION", "PROVIDER", "HOST", "STATE", "REASON", "ID", rows=rows, empty=empty)
    output.emit(found, as_json=as_json, show=show)


@sources_group.command("remove")
@click.argument("source")
@org_option
@output.json_option
def remove_source(source: str, org_name: str | None, as_json: bool) -> None:
    """Stop reading SOURCE (name or id): it and its schedules go, its records and metrics stay."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        found = sources.source(tx, source, sources.org(tx, org_name).id if org_name else None)
        sources.remove_source(tx, found)
    output.emit(found, as_json=as_json, show=output.sentence(f"source {found.external_name} removed"))


COMMANDS = (orgs, sources_group)
