"""How git signs in over ssh: key and known hosts in memory files that git inherits, read by the ssh that it starts.

Nothing of the worker's user takes part: no configuration, no agent, no other key, no host that was trusted before.
"""

import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from worker_app import errors
from worker_app.credentials.kinds import GitSsh
from worker_app.providers.git_command import Loan

# Single values: what is not said here is what ssh does without any configuration.
OPTIONS = {
    "BatchMode": "yes",  # never asks
    "StrictHostKeyChecking": "yes",  # a host that is not known, or has another key than before, gets no connection
    "GlobalKnownHostsFile": "/dev/null",
    "UpdateHostKeys": "no",
    "PreferredAuthentications": "publickey",
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",
    "ForwardAgent": "no",
    "ClearAllForwardings": "yes",
    "ConnectTimeout": "30",  # seconds
    "ServerAliveInterval": "15",  # seconds; after three unanswered ones a dead connection ends, also when no worker is left
    # A shared master connection would outlive git and hold its standard error open.
    "ControlMaster": "no",
    "ControlPath": "none",
}

# MFD_NOEXEC_SEAL: a hardened kernel makes no other memory file (sysctl vm.memfd_noexec), one before Linux 6.3 does not know it.
NOEXEC_SEAL = 0x0008


def find_program() -> str:
    """The path of ssh. Raises SettingsError when there is none."""
    program = shutil.which("ssh")
    if program is None:
        raise errors.SettingsError("ssh is not found on PATH; install openssh-client where the worker runs")
    return program


@contextmanager
def lent(credential: GitSsh) -> Iterator[Loan]:
    """What one command of git is given to sign in. Raises SettingsError where this machine cannot.

    ssh closes every descriptor that it inherits, so it opens the files through those of git, which is the parent of the shell
    that starts it: `$PPID`. The user of the worker may do so and nobody else but root.
    """
    program = find_program()
    with ExitStack() as closing:
        key, known = (_memory_file(text, closing) for text in (credential.private_key.reveal(), credential.known_hosts))
        yield Loan({"GIT_SSH_COMMAND": _command(program, key, known), "GIT_SSH_VARIANT": "ssh"}, (key, known))


def _memory_file(text: str, closing: ExitStack) -> int:
    descriptor = _new_memory_file()
    closing.callback(os.close, descriptor)
    os.fchmod(descriptor, 0o400)  # ssh takes no key that others could read
    with open(descriptor, "wb", closefd=False) as file:
        file.write(text.rstrip("\n").encode() + b"\n")
    return descriptor


def _new_memory_file() -> int:
    if hasattr(os, "memfd_create"):
        for flags in (os.MFD_CLOEXEC | NOEXEC_SEAL, os.MFD_CLOEXEC):
            with suppress(OSError):
                return os.memfd_create("git", flags)
    raise errors.SettingsError(
        "a source that is read over ssh needs a worker on Linux that may call memfd_create, where its key is kept in memory"
    )


def _command(program: str, key: int, known: int) -> str:
    """A command line for the shell; what it names are descriptors."""
    files = {"IdentityFile": f"/proc/$PPID/fd/{key}", "UserKnownHostsFile": f"/proc/$PPID/fd/{known}"}
    return " ".join(
        [shlex.quote(program), "-F", "/dev/null", *(f"-o {name}={value}" for name, value in (OPTIONS | files).items())]
    )
