import contextlib
import socket
import subprocess
import sys

import psutil

from tests.processes import wait_for
from worker_app.embedded import process
from worker_app.embedded.ports import Ports, free_port

SERVER = "import socket; s = socket.create_server(('127.0.0.1', {port})); input()"


def test_free_port_is_the_preferred_one_when_nobody_listens() -> None:
    port = free_port()
    assert free_port(port) == port


def test_free_port_is_another_when_the_preferred_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        port = free_port(taken)
    assert port != taken
    assert port > 0


def test_port_that_one_has_taken_is_not_chosen_by_another_before_its_server_listens() -> None:
    wanted = free_port()
    with contextlib.closing(Ports()) as one, contextlib.closing(Ports()) as other:
        assert one.take(wanted) == wanted
        assert other.take(wanted) != wanted
        one.close()
        assert other.take(wanted) == wanted


def test_port_of_one_that_was_killed_is_free_again() -> None:
    wanted = free_port()
    code = f"from worker_app.embedded.ports import Ports; p = Ports(); print(p.take({wanted}), flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert int(holder.stdout.readline()) == wanted
        with contextlib.closing(Ports()) as mine:
            assert mine.take(wanted) != wanted
            holder.kill()
            holder.wait(10)
            assert mine.take(wanted) == wanted


def test_only_the_process_that_listens_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        taken = foreign.getsockname()[1]
        own = free_port()
        code = SERVER.format(port=own)
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as server:
            seen = psutil.Process(server.pid)
            wait_for(lambda: process.listens(seen, own), "the server listens", 20)
            assert not process.listens(seen, taken)
            assert process.listens(psutil.Process(), taken)
            server.kill()
        assert not process.listens(seen, own)
