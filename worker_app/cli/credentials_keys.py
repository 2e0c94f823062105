"""`credentials rotate-keys`: every sealed row passes to the key that writes, while everything serves."""

import click

COMMANDS: tuple[click.Command, ...] = ()
