"""Credentials of organisations: added from standard input, a file or a variable, and never shown again."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from worker_app import errors
from worker_app.cli import context, credential_input, output
from worker_app.cli import credential_options as options
from worker_app.cli.directory import org_option
from worker_app.credentials import adding
from worker_app.store import credentials as rows
from worker_app.store import sources
from worker_app.vault import RingKeys, Vault

MOST_NAME = 100  # characters


@click.group("credentials")
def credentials_group() -> None:
    """Credentials: what a provider is asked with, sealed for one organisation and one host."""


@credentials_group.command("add", context_settings={"allow_extra_args": True})  # click would repeat them
@click.argument("name")
@click.option("--provider", type=click.Choice(options.PROVIDERS), required=True, help="Whose credential it is.")
@click.option(
    "--host", help="The one host that it is sent to; for github, gitlab and linear their own unless another is given."
)
@click.option("--file", "path", type=click.Path(path_type=Path), help="Read the secret from this file.")
@click.option("--env", "variable", help="Read the secret from the variable of this name.")
@click.option("--app-id", type=click.IntRange(min=1), help="Id of a GitHub App; the secret is its private key.")
@click.option("--installation-id", type=click.IntRange(min=1), help="Id of the App's installation.")
@click.option("--email", help="Jira Cloud: the address of the account that made the token.")
@click.option("--user", help="git over HTTPS: the name to sign in with; the secret is its password or a token.")
@click.option(
    "--known-hosts",
    type=click.Path(path_type=Path),
    help="git over SSH: a known_hosts file with the host's keys; the secret is a private key without a passphrase.",
)
@click.option("--replace", is_flag=True, help="Give a credential that is there a new secret.")
@click.option(
    "--revoke-old", is_flag=True, help="With --replace: erase the old secret at once; runs that hold it fail."
)
@org_option
@output.json_option
def add_credential(
    name: str,
    provider: str,
    host: str | None,
    path: Path | None,
    variable: str | None,
    replace: bool,
    revoke_old: bool,
    org_name: str | None,
    as_json: bool,
    **details: Any,
) -> None:
    """Add a credential under NAME. The secret comes from standard input, --file or --env, never from an argument."""
    _refuse_further(click.get_current_context().args)
    _check_name(name)
    if revoke_old and not replace:
        raise errors.UsageError(
            "--revoke-old goes with --replace: without a new secret, `credentials remove` erases one"
        )
    host = options.host_of(provider, host)
    wanted = options.wanted(provider, host, options.Details(**details))
    with context.opened() as runtime:
        sealer = Vault(RingKeys(runtime.settings.require_credential_keys()))
        with runtime.postgres.transaction() as tx:
            org = sources.org(tx, org_name)
        text = credential_input.secret(path, variable, prompt=wanted.called, has_lines=wanted.has_lines)
        credential = wanted.made(text)
        with runtime.postgres.transaction() as tx:
            added = adding.add(
                tx, sealer, credential, org_id=org.id, name=name, created_by=context.author(), replaces=replace,
                revoke_old=revoke_old,
            )  # fmt: skip
    done = "has a new secret" if replace else "added"
    told = f"credential {added.name} for {added.host} {done} (version {added.version}, {added.id})"
    output.emit(added, as_json=as_json, show=output.sentence(told))


def _refuse_further(arguments: Sequence[str]) -> None:
    """A word too many may be a secret of a shape that nobody knows, so it is not repeated."""
    if arguments:
        raise errors.UsageError(
            "there is an argument too many. If it is the secret, it is in the shell's history and others saw it: withdraw it, "
            "and give a new one on standard input, by --file or by --env"
        )


def _check_name(name: str) -> None:
    if not name.strip() or name != name.strip() or not name.isprintable() or len(name) > MOST_NAME:
        raise errors.UsageError(
            f"credential is {name[:MOST_NAME]!r}: give a name of 1 to {MOST_NAME} printable characters, no space around it"
        )


@credentials_group.command("list")
@org_option
@output.json_option
def list_credentials(org_name: str | None, as_json: bool) -> None:
    """List the credentials; no part of a secret is ever shown."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        found = rows.entries(tx, sources.org(tx, org_name).id if org_name else None)
    columns = ("CREDENTIAL", "ORGANISATION", "HOST", "KIND", "VERSION", "KEY", "ADDED", "LAST USED", "SOURCES", "ID")
    shown = [
        (item.name, item.org, item.host, item.kind, item.version, item.key_id, item.created_at, item.last_used_at,
         item.sources_count, item.id)
        for item in found
    ]  # fmt: skip
    empty = "no credential yet; add one with `dev-hops credentials add NAME --provider github`"
    output.emit(found, as_json=as_json, show=output.table(*columns, rows=shown, empty=empty))


@credentials_group.command("remove")
@click.argument("credential")
@org_option
@output.json_option
def remove_credential(credential: str, org_name: str | None, as_json: bool) -> None:
    """Erase the secret of CREDENTIAL (name or id) at once; syncs that use it fail from now on."""
    with context.opened() as runtime, runtime.postgres.transaction() as tx:
        found = rows.entry(tx, credential, sources.org(tx, org_name).id if org_name else None)
        rows.erase(tx, found)
    output.emit(found, as_json=as_json, show=output.sentence(f"credential {found.name} for {found.host} removed"))
    if found.sources_count:
        output.note(
            f"{found.sources_count} sources name it: their syncs fail until a credential {found.name!r} for {found.host} "
            "is added again"
        )


COMMANDS = (credentials_group,)
