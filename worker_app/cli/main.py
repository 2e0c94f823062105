"""The `dev-hops` command, one file per group of verbs. Every verb takes `--json`; errors name the remedy on standard error."""

import io
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import click

from worker_app import core_dumps, errors, logs, secret
from worker_app.cli import exits
from worker_app.cli.output import note

HOLDERS: Mapping[str, tuple[str, ...]] = {  # verb -> the module that holds it, and those that add to it
    "up": ("stack",),
    "down": ("stack",),
    "status": ("stack",),
    "env": ("stack",),
    "orgs": ("directory",),
    "sources": ("directory",),
    "credentials": ("credentials", "credentials_check", "credentials_keys"),
    "schedules": ("schedules",),
    "sync": ("runs",),
    "runs": ("runs",),
    "explain": ("explain",),
    "metrics": ("metrics", "metrics_recompute"),
    "reports": ("reports",),
    "queues": ("queues",),
    "fleets": ("fleets",),
    "gate": ("gate",),
    "doctor": ("doctor",),
    "migrate": ("migrate",),
    "worker": ("roles",),
    "beat": ("roles",),
    "api": ("roles",),
    "flower": ("roles",),
    "probe": ("roles",),
}
ROLES = "worker_app.cli.roles"  # the image's command line gives a worker every variable, also those that are not set


class Verbs(click.Group):
    """Verbs that are imported where they are named: a worker starts without what only `migrate` needs.

    Page: https://click.palletsprojects.com/en/stable/complex/#lazily-loading-subcommands
    """

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the name of click
        """Their names, in the order in which a newcomer needs them."""
        return list(HOLDERS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - the name of click
        """The verb of this name, None for one that is not there."""
        if cmd_name not in self.commands and cmd_name in HOLDERS:
            holder, *_ = [import_module(f"worker_app.cli.{name}") for name in HOLDERS[cmd_name]]
            for command in holder.COMMANDS:
                if holder.__name__ != ROLES:
                    _check_texts(command)
                self.add_command(command)
        return self.commands.get(cmd_name)

    def every(self) -> Mapping[str, click.Command]:
        """name -> verb, all of them."""
        context = click.Context(self)
        return {name: command for name in HOLDERS if (command := self.get_command(context, name))}


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="dev-hops", prog_name="dev-hops")
def cli() -> None:
    """Keep development data in sync and turn it into developer-health metrics.

    New here? `dev-hops up` runs everything on this machine and syncs the repository you stand in.

    Exit codes: 0 ok, 1 failed, 2 wrong usage, 75 try again later (a store is away, a schema is behind), 78 wrong configuration.
    """


def _given(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """A text that was typed. An empty option is a shell variable that was not set; a secret is in the shell's history now."""
    if value == "" and isinstance(parameter, click.Option):
        raise click.BadParameter("it is empty; give a value, or leave the option out", param=parameter)
    if value is not None and secret.looks_like_secret(value):
        raise click.BadParameter(
            "it holds what looks like a secret, which others see in the list of processes: withdraw it at its provider, and "
            "give a new one to `dev-hops credentials add` on standard input",
            param=parameter,
        )
    return value


def _check_texts(command: click.Command) -> None:
    for item in command.commands.values() if isinstance(command, click.Group) else ():
        _check_texts(item)
    for parameter in command.params:
        if (
            parameter.type is click.STRING
            and parameter.callback is None
            and parameter.nargs == 1
            and not parameter.multiple
        ):
            parameter.callback = _given


def main() -> None:
    """Run the command line; a known error is one message and its exit code, never a traceback."""
    for closed in ("stdout", "stderr"):
        if getattr(sys, closed) is None:
            setattr(sys, closed, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - lives as long as the process
    core_dumps.forbid()
    logs.configure("WARNING", "text")
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        note("stopped")
        sys.exit(130)
    except click.ClickException as error:
        shown = io.StringIO()
        error.show(file=shown)
        click.echo(secret.redacted(shown.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except OSError as error:
        note(f"Error: the output cannot be written: {error.strerror}")
        sys.exit(exits.EXIT_FAILED)
    except errors.DevHopsError as error:
        note(f"Error: {secret.redacted(str(error))}")
        if isinstance(error, errors.StoreAway):
            note(
                "look whether the store runs and whether its address is right: `dev-hops doctor` asks each; nothing was lost"
            )
        sys.exit(exits.exit_code(error))
