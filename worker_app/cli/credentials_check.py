"""`credentials check`: who a credential is at its provider, and what it may see."""

import click

COMMANDS: tuple[click.Command, ...] = ()
