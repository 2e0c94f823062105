"""A line to Redis on real sockets that loses one chosen exchange: before the server has it, or after it has done it."""

import contextlib
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Self

How = Literal["request", "answer", "nothing"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens once, to the next command that holds all of `marks`."""

    marks: tuple[bytes, ...]
    loses: How
    before: Callable[[], object]


class Line:
    """Connects whoever connects to `port` with the Redis at `target`. A lost exchange costs its connection, as in life."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._faults: list[Fault] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    def lose_request(self, *marks: bytes) -> None:
        """The server never hears of the next command with these marks."""
        self._faults.append(Fault(marks, "request", lambda: None))

    def lose_answer(self, *marks: bytes) -> None:
        """The server does the next command with these marks, and nobody hears of it."""
        self._faults.append(Fault(marks, "answer", lambda: None))

    def before(self, *marks: bytes, do: Callable[[], object]) -> None:
        """Do something while the next command with these marks is on its way."""
        self._faults.append(Fault(marks, "nothing", do))

    def mend(self) -> None:
        """Lose nothing any more."""
        self._faults.clear()

    @property
    def is_whole(self) -> bool:
        """Whether every fault that was asked for has come."""
        return not self._faults

    def close(self) -> None:
        """Drop every connection and end."""
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(timeout=5)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            self._threads.append(threading.Thread(target=self._carry, args=(client,)))
            self._threads[-1].start()

    def _carry(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self._target) as server:
            is_lost = False
            while True:
                for source in select.select([client, server], [], [])[0]:
                    data = source.recv(1 << 16)
                    if not data or (source is server and is_lost):
                        return
                    if source is server:
                        client.sendall(data)
                        continue
                    if fault := self._fault_of(data):
                        fault.before()
                        if fault.loses == "request":
                            return
                        is_lost = fault.loses == "answer"
                    server.sendall(data)

    def _fault_of(self, data: bytes) -> Fault | None:
        for fault in self._faults:
            if all(mark in data for mark in fault.marks):
                self._faults.remove(fault)
                return fault
        return None
