"""Nursery: a process that has imported everything and forks actors from itself, in milliseconds instead of a second.

It reads one order a line from standard input, and writes one line for every child that is born and for every one that ended.
When its input ends, so do its children and it. It has one thread and no connection, so that a fork copies neither.
"""

import json
import os
import select
import signal
from contextlib import suppress

from tests.chaos.dispatch import actor
from tests.chaos.dispatch.actor import Orders

LOOK_SECONDS = 0.02


def _say(**content: object) -> None:
    os.write(1, (json.dumps(content) + "\n").encode())


def _bear(line: bytes) -> int:
    orders = Orders(**json.loads(line))
    child = os.fork()
    if child == 0:
        actor.main(orders)
    _say(born=orders.name, pid=child)
    return child


def main() -> None:
    """Fork what is asked for until nobody asks any more."""
    children: set[int] = set()
    rest = b""
    while True:
        if select.select([0], [], [], LOOK_SECONDS)[0]:
            read = os.read(0, 65536)
            if not read:
                break
            *lines, rest = (rest + read).split(b"\n")
            children |= {_bear(line) for line in lines}
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                children.discard(ended[0])
                _say(ended=ended[0], status=os.waitstatus_to_exitcode(ended[1]))
    for child in children:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()
