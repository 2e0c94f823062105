"""ClickHouse for tests: its engine behind its HTTP protocol, for any number of unmodified clients at once."""

import contextlib
import json
import logging
import socket
import sys
import threading
from pathlib import Path

from werkzeug import Request, Response
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.clickhouse import wire
from tests.clickhouse.address import PASSWORD, USER
from tests.clickhouse.engine import Engine, Refused
from tests.clickhouse.faults import Fault, Faults


class Front:
    """One engine and its faults as a WSGI application."""

    def __init__(self, folder: Path) -> None:
        self._engine = Engine(folder)
        self._faults = Faults()

    def serve(self, port: int) -> None:
        """Answer on loopback until standard input ends, so that no front outlives who started it. Port 0: a free one."""
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        application = Request.application(self._reply)
        server = make_server("127.0.0.1", port, application, threaded=True, request_handler=_KeptConnection)
        sys.stdout.write(f"http://127.0.0.1:{server.server_port}\n")
        sys.stdout.flush()
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        sys.stdin.read()

    def _reply(self, request: Request) -> Response:
        if request.path == "/ping":
            return Response("Ok.\n")
        if request.path == "/faults":
            return self._set_faults(request)
        try:
            reply = self._answer(request)
        except Refused as error:
            reply = wire.refused(request, error)
        return wire.signed(request, reply, self._engine.timezone)

    def _answer(self, request: Request) -> Response:
        _check_user(request)
        statement = wire.asked(request)
        if not statement.text.strip():
            return Response("Ok.\n")
        fault = self._faults.take(statement.text)
        if fault is None:
            return wire.answered(request, statement, self._engine.answer(statement))
        if fault.kind == "lose":
            self._engine.answer(statement)
            self._faults.asked.append(statement.text)
        self._faults.is_over.wait(fault.seconds)
        if fault.kind == "delay":
            return wire.answered(request, statement, self._engine.answer(statement))
        return _failed(request, fault)

    def _set_faults(self, request: Request) -> Response:
        """GET: the statements so far. POST: one more fault. DELETE: forget both."""
        if request.method == "POST":
            self._faults.add(Fault(**request.get_json()))
        if request.method == "DELETE":
            self._faults.clear()
        return Response(json.dumps(self._faults.asked), content_type="application/json")


class _KeptConnection(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"


def _check_user(request: Request) -> None:
    """As in ClickHouse, one of three ways: the headers of its own, basic authentication, the address."""
    basic = request.authorization
    user = _header(request, "X-ClickHouse-User") or request.args.get("user") or (basic and basic.username)
    key = _header(request, "X-ClickHouse-Key") or request.args.get("password") or (basic and basic.password)
    if (user, key) != (USER, PASSWORD):
        raise Refused(
            f"Code: 516. DB::Exception: {user or 'default'}: Authentication failed: password is incorrect, "
            "or there is no user with such name. (AUTHENTICATION_FAILED)"
        )


def _header(request: Request, name: str) -> str:
    return request.headers.get(name, "").encode("latin-1").decode()


def _failed(request: Request, fault: Fault) -> Response:
    if fault.kind == "code":
        raise Refused(f"Code: {fault.code}. DB::Exception: as the test wants it. (WANTED)")
    if fault.kind == "unavailable":
        return Response("no healthy upstream", 503)
    return _hang_up(request)


def _hang_up(request: Request) -> Response:
    connection: socket.socket = request.environ["werkzeug.socket"]
    with contextlib.suppress(OSError):  # whoever asked has hung up before
        connection.shutdown(socket.SHUT_RDWR)
    return Response("")
