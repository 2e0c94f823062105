"""An ssh server for tests, as a program: lets one key in and runs `git upload-pack` in a folder.

    python git_ssh_server.py FOLDER HOST_KEY AUTHORIZED_KEY LOG [holds]

Prints its port, then serves until it is killed.
"""

import asyncio
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncssh

FOLDER, HOST_KEY, USER_KEY, LOG = (Path(name) for name in sys.argv[1:5]) if len(sys.argv) > 4 else (Path(),) * 4


class _Server(asyncssh.SSHServer):
    def begin_auth(self, username: str) -> bool:
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        is_right = key.public_data == asyncssh.read_public_key(USER_KEY).public_data
        _note(f"{'right' if is_right else 'wrong'} key")
        return is_right


def _note(line: str) -> None:
    with LOG.open("a") as log:
        log.write(line + "\n")


async def _serve(process: "asyncssh.SSHServerProcess[bytes]") -> None:
    _note(str(process.command))
    if "holds" in sys.argv:
        await process.stdin.read()
    program, path = shlex.split(process.command or "")
    command = ["git", "-c", "safe.directory=*", program.removeprefix("git-"), str(FOLDER / path.lstrip("/"))]
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    feeding = asyncio.create_task(_carry(process.stdin, child.stdin))
    await asyncio.gather(_carry(child.stdout, process.stdout), _carry(child.stderr, process.stderr))
    feeding.cancel()
    process.exit(await child.wait())


async def _carry(given: Any, taken: Any) -> None:
    with suppress(ConnectionError):
        while piece := await given.read(1 << 16):
            taken.write(piece)
            await taken.drain()


async def _main() -> None:
    options: dict[str, Any] = {"server_factory": _Server, "process_factory": _serve, "encoding": None}
    server = await asyncssh.listen("127.0.0.1", 0, server_host_keys=[str(HOST_KEY)], **options)
    sys.stdout.write(f"{server.get_port()}\n")
    sys.stdout.flush()
    await server.wait_closed()


if __name__ == "__main__":
    asyncio.run(_main())
