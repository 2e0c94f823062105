"""Context: how a command reaches the stores, and who gives it."""

import os
import pwd
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from worker_app import runtime, settings


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
