"""Credentials of organisations: added from standard input, a file or a variable, and never shown again."""

from pathlib import Path

import click

from worker_app import errors, settings
from worker_app.cli import context, output
from worker_app.cli.directory import org_option
from worker_app.credentials import adding, given
from worker_app.credentials.kinds import Credential, GitHubApp, GitHubToken
from worker_app.store import credentials as rows
from worker_app.store import sources
from worker_app.vault import RingKeys, Vault

MOST_NAME = 100  # characters
MOST_ID = 2**63 - 1
MOST_BYTES = 65_536  # of a secret; the longest key in PEM has a tenth of it


@click.group("credentials")
def credentials_group() -> None:
    """Credentials: what a provider is asked with, sealed for one organisation and one host."""


@credentials_group.command("add")
@click.argument("name")
@click.option("--provider", type=click.Choice(["github"]), required=True, help="Whose credential it is.")
@click.option("--host", default="github.com", show_default=True, help="The one host that it is sent to.")
@click.option("--file", "path", type=click.Path(path_type=Path), help="Read the secret from this file.")
@click.option("--env", "variable", help="Read the secret from the variable of this name.")
@click.option("--app-id", type=click.IntRange(min=1), help="Id of a GitHub App; the secret is its private key.")
@click.option("--installation-id", type=click.IntRange(min=1), help="Id of the App's installation.")
@click.option("--replace", is_flag=True, help="Give a credential that is there a new secret.")
@org_option
@output.json_option
def add_credential(
    name: str,
    provider: str,
    host: str,
    path: Path | None,
    variable: str | None,
    app_id: int | None,
    installation_id: int | None,
    replace: bool,
    org_name: str | None,
    as_json: bool,
) -> None:
    """Add a credential under NAME. The secret comes from standard input, --file or --env, never from an argument."""
    assert provider == GitHubToken.provider
    if not all(0 < (number or 1) <= MOST_ID for number in (app_id, installation_id)):
        raise errors.UsageError(
            f"--app-id and --installation-id are numbers from 1 to {MOST_ID}, as the App's settings show them"
        )
    if (app_id is None) != (installation_id is None):
        raise errors.UsageError("--app-id and --installation-id go together: give both for an App, none for a token")
    if not name.strip() or not name.isprintable() or len(name) > MOST_NAME:
        raise errors.UsageError(
            f"credential is {name[:MOST_NAME]!r}: give a name of 1 to {MOST_NAME} printable characters"
        )
    host = given.host_of(host)
    with context.opened() as runtime:
        sealer = Vault(RingKeys(runtime.settings.require_credential_keys()))
        with runtime.postgres.transaction() as tx:
            org = sources.org(tx, org_name)
        credential = _credential(_secret(path, variable, has_lines=app_id is not None), host, app_id, installation_id)
        with runtime.postgres.transaction() as tx:
            added = adding.add(
                tx, sealer, credential, org_id=org.id, name=name, created_by=context.author(), replaces=replace
            )
    text = f"credential {added.name} for {added.host} added (version {added.version}, {added.id})"
    output.emit(added, as_json=as_json, show=output.sentence(text))


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


def _credential(secret: str, host: str, app_id: int | None, installation_id: int | None) -> Credential:
    if app_id is None or installation_id is None:
        return GitHubToken(host, given.token_of(secret))
    return GitHubApp(host, app_id, installation_id, given.private_key_of(secret))


def _secret(path: Path | None, variable: str | None, *, has_lines: bool) -> str:
    """The secret as it was given. Messages repeat neither name: who mistakes an option gives the secret in its place."""
    if path is not None and variable is not None:
        raise errors.UsageError("--file and --env are both given: keep one of them")
    if path is not None:
        return _of_file(path)
    if variable is not None:
        value = settings.variable(variable)
        if value is None:
            raise errors.UsageError("--env names a variable that is not set; it takes the name, not the secret")
        return value
    stream = click.open_file("-", "rb")
    if not stream.isatty():
        return _text(stream.read(MOST_BYTES + 1))
    if has_lines:
        raise errors.UsageError("a private key has many lines: give it by --file, by --env or by a pipe")
    return str(click.prompt("token", hide_input=True, err=True))


def _of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _text(file.read(MOST_BYTES + 1))
    except OSError as error:
        raise errors.UsageError(f"the file that --file names cannot be read: {error.strerror}") from None


def _text(content: bytes) -> str:
    if len(content) > MOST_BYTES:
        raise errors.UsageError(f"the secret has more than {MOST_BYTES} bytes: no credential is that long")
    return content.decode("utf-8", "replace")


COMMANDS = (credentials_group,)
