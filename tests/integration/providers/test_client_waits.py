import socket
import threading
from contextlib import ExitStack

import pytest

from tests.gates import RecordingGate
from tests.integration.providers.callers import REPOSITORY, Caller, always, calling, client_of
from tests.processes import wait_for
from tests.web_server import Seen, Written
from worker_app import errors
from worker_app.gate.signals import Kind
from worker_app.providers.http_session import Session

pytestmark = pytest.mark.integration

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def raised(caller: Caller) -> errors.ProviderFault:
    with pytest.raises(errors.ProviderFault) as fault:
        caller.client.send(REPOSITORY)
    return fault.value


@pytest.mark.parametrize(
    ("head", "piece"),
    [(HEAD, b"X-A: 1\r\n"), (HEAD, b"x"), (HEAD + b"\r\n", b" "), (CHUNKS, b"1\r\n \r\n")],
    ids=["headers", "one header", "body", "chunks"],
)
def test_a_reply_that_drips_ends_with_the_total(head: bytes, piece: bytes) -> None:
    def respond(_: Seen) -> Written:
        return Written(head=[head], parts=caller.server.drip(piece, 0.05))

    with calling(respond, seconds=0.6, session={"read_seconds": 5.0}) as caller:
        fault = raised(caller)
    assert "took longer than 0.6 s" in str(fault)


def test_a_body_that_drips_is_told_to_the_gate() -> None:
    def respond(_: Seen) -> Written:
        return Written(head=[HEAD, b"\r\n"], parts=caller.server.drip(b" ", 0.05))

    with calling(respond, seconds=0.4) as caller:
        assert raised(caller).status == 200
    assert caller.gate.kinds == [Kind.OK]


@pytest.mark.parametrize("head", [[b""], [HEAD + b"\r\n[1,"]], ids=["nothing at all", "half a body"])
def test_a_server_that_falls_silent_is_waited_for_no_longer_than_a_read(head: list[bytes]) -> None:
    def respond(_: Seen) -> Written:
        return Written(head=head, parts=caller.server.drip(b"", 0.05))

    with calling(respond, seconds=20.0, session={"read_seconds": 0.3}) as caller:
        assert "sent nothing for 0.3 s" in str(raised(caller))


def test_a_request_without_a_reply_teaches_the_gate_nothing_and_leaves_its_slot() -> None:
    with calling(always(Written(head=[], body=b"", is_last=True))) as caller:
        fault = raised(caller)
    assert (fault.status, caller.gate.kinds, caller.gate.live) == (None, [None], 0)
    assert "closed the connection before it answered" in str(fault)
    assert len(caller.server.seen) == 1, "nothing is repeated past the gate"


def test_a_server_that_refuses_connections_is_a_fault() -> None:
    with calling(always(Written())) as caller:
        pass
    assert str(raised(caller)).endswith("cannot be talked to: Connection refused")


def test_a_server_that_takes_no_connection_is_waited_for_no_longer_than_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, ExitStack() as stack:
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        session = Session(connect_seconds=0.3)
        stack.callback(session.close)
        client = client_of(f"http://127.0.0.1:{full.getsockname()[1]}", RecordingGate(), session)
        with pytest.raises(errors.ProviderFault, match="did not take the connection in time"):
            client.send(REPOSITORY)


def test_a_name_that_does_not_resolve_is_a_fault() -> None:
    with ExitStack() as stack:
        session = Session()
        stack.callback(session.close)
        with pytest.raises(errors.ProviderFault, match=r"github at nowhere\.invalid has a name that does not resolve"):
            client_of("https://nowhere.invalid", RecordingGate(), session).send(REPOSITORY)


def test_connections_are_kept_and_shared() -> None:
    with calling(always(Written(body=b"[1]"))) as caller:
        for _ in range(5):
            caller.client.send(REPOSITORY)
    assert caller.server.connections == 1


def test_a_connection_that_the_server_closed_meanwhile_is_replaced() -> None:
    with calling(always(Written(is_last=True))) as caller:
        for _ in range(3):
            assert caller.client.send(REPOSITORY).status == 200
            wait_for(lambda: caller.server.open_connections == 0, "the server has closed it")
    assert caller.server.connections == 3


def test_a_fault_in_a_body_gives_its_connection_back() -> None:
    replies = [Written(body=b"[", length=9, is_last=True)] * 3
    with calling(
        lambda _: replies.pop() if replies else Written(), session={"slots": 1, "pool_seconds": 0.2}
    ) as caller:
        for _ in range(3):
            raised(caller)
        assert caller.client.send(REPOSITORY).status == 200


def test_s40_who_waits_in_the_gate_holds_no_connection() -> None:
    gate = RecordingGate()
    gate.is_open.clear()
    with calling(always(Written()), gate=gate) as caller:
        thread = threading.Thread(target=caller.client.send, args=(REPOSITORY,))
        thread.start()
        wait_for(lambda: gate.waiting == 1, "the request waits in the gate")
        assert caller.server.connections == 0
        gate.is_open.set()
        thread.join(10)
    assert len(caller.server.seen) == 1


def test_s40_the_wait_for_a_connection_ends() -> None:
    def respond(seen: Seen) -> Written:
        entered.set()
        assert leave.wait(10)
        return Written()

    entered, leave = threading.Event(), threading.Event()
    with calling(respond, session={"slots": 1, "pool_seconds": 0.2}) as caller:
        thread = threading.Thread(target=caller.client.send, args=(REPOSITORY,))
        thread.start()
        assert entered.wait(10)
        assert "has no free connection here" in str(raised(caller))
        leave.set()
        thread.join(10)
        assert caller.client.send(REPOSITORY).status == 200
    assert caller.server.connections == 1
