"""Context: how a command reaches the stores, and how an error becomes an exit code."""

import os
import pwd
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from worker_app import errors, runtime, settings

EXIT_FAILED, EXIT_USAGE, EXIT_LATER, EXIT_CONFIGURATION = 1, 2, 75, 78


def exit_code(error: errors.DevHopsError) -> int:
    """The exit code of an error: 2 usage, 75 try again later, 78 configuration, 1 anything else."""
    if isinstance(error, errors.SettingsError | errors.SchemaAhead):
        return EXIT_CONFIGURATION
    if isinstance(error, errors.UsageError):
        return EXIT_USAGE
    if isinstance(error, errors.TransientError | errors.Deferral):
        return EXIT_LATER
    return EXIT_FAILED


@contextmanager
def opened() -> Iterator[runtime.Runtime]:
    """The stores of the environment or of a running `dev-hops up`, closed at the end."""
    built = runtime.build(settings.load(), role="cli")
    try:
        yield built
    finally:
        built.close()


def author() -> str:
    """Who gives this command: whom the operating system takes the user for, and on which machine."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = f"uid {os.getuid()}"
    return f"{name}@{socket.gethostname()}"
