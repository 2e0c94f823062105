"""What git sees of the world: which program it is, its variables, and the file it takes for the user's own configuration.

Nothing of the user's reaches it: no configuration, no helper, no hook, no prompt. Runs nothing, knows no address.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from worker_app import errors

# What git reads as the user's own. A transfer that stalls for 60 s ends.
CONFIG = """\
[credential]
\thelper =
[core]
\thooksPath = /dev/null
[gc]
\tauto = 0
[maintenance]
\tauto = false
[http]
\tlowSpeedLimit = 1
\tlowSpeedTime = 60
[safe]
"""


def find_program() -> str:
    """The path of git. Raises SettingsError when there is none."""
    program = shutil.which("git")
    if program is None:
        raise errors.SettingsError("git is not found on PATH; install git 2.32 or newer where the worker runs")
    return program


def variables(
    program: str, *, home: Path, config: Path, protocol: str, authorities: Path | None = None
) -> dict[str, str]:
    """All that git sees of the world, save what it is lent for one command.

    `home` is an empty folder, `config` a file of ours, `protocol` the only one that is spoken, `authorities` a PEM file of those
    that vouch for hosts in place of the public ones.
    """
    known = {"GIT_SSL_CAINFO": str(authorities.absolute())} if authorities else {}
    return {
        **known,
        "PATH": os.pathsep.join((str(Path(program).parent), os.defpath)),
        "HOME": str(home),
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(config),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ALLOW_PROTOCOL": protocol,
        # A partial clone as a source must not make git call the remote of that clone.
        "GIT_NO_LAZY_FETCH": "1",
    }


def write_config(config: Path, *, trusted: Iterable[Path]) -> None:
    """Write the file that git reads as the user's own, where it differs.

    A source path that belongs to another user is `trusted` here alone: the child of git that serves it sees this file,
    but neither `-c` nor what the source itself configures.
    """
    text = CONFIG + "".join(f"\tdirectory = {_quoted(str(folder))}\n" for folder in trusted)
    if not config.exists() or config.read_text() != text:
        new = config.with_suffix(".config-new")
        new.write_text(text)
        new.replace(config)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
