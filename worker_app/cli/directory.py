"""Organisations and their sources."""

import click

from worker_app import errors
from worker_app.cli import context, output
from worker_app.providers import registry
from worker_app.store import sources
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
@click.option("--provider", default="git", show_default=True, help="git; more providers follow.")
@org_option
@output.json_option
def add_source(name: str, provider: str, org_name: str | None, as_json: bool) -> None:
    """Add a source: NAME is a clone address (https or ssh) or, beside `dev-hops up`, a path on this machine."""
    known = registry.provider(provider)
    shown, (host, ext_id) = known.public_address(name), known.identity(name)
    with context.opened() as runtime:
        if host == "localhost" and not runtime.settings.git_allow_file:
            raise errors.UsageError(
                f"source is {name!r}, a path: workers read paths only where GIT_ALLOW_FILE is true, as in `dev-hops up`; "
                "give the clone address, or set it on the workers too"
            )
        with runtime.postgres.transaction() as tx:
            org = sources.org(tx, org_name)
            added = sources.add_source(tx, org.id, provider, host, shown, ext_id)
    text = f"source {added.external_name} added; sync it now with `dev-hops sync {added.id}`, or add a schedule"
    output.emit(added, as_json=as_json, show=output.sentence(text))


@sources_group.command("list")
@org_option
@output.json_option
def list_sources(org_name: str | None, as_json: bool) -> None:
    """List the sources with their state."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        org_id = sources.org(tx, org_name).id if org_name else None
        found = sources.sources(tx, org_id)
    rows = [(item.external_name, item.provider, item.state, item.state_reason, item.id) for item in found]
    empty = "no source yet; add one with `dev-hops sources add ADDRESS`"
    show = output.table("SOURCE", "PROVIDER", "STATE", "REASON", "ID", rows=rows, empty=empty)
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
