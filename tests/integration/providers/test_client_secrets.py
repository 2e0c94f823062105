import base64
import logging
import socket
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates import RecordingGate
from tests.integration.providers.callers import CANARY, REPOSITORY, Token, always, calling, client_of
from tests.integration.providers.certificates import own_certificate
from tests.web_server import Seen, WebServer, Written
from worker_app import errors
from worker_app.providers.client import Request
from worker_app.providers.http_session import Session

pytestmark = pytest.mark.integration


def echo(seen: Seen) -> Written:
    """A page that shows the credential it got, as a debugging proxy does."""
    said = f"<html>Authorization: {seen.headers['Authorization']}".encode()
    return Written(int(seen.target[1:4]), said, {"Content-Type": f"text/html; {seen.headers['Authorization']}"})


def redirect(_: Seen) -> Written:
    return Written(302, headers={"Location": f"http://localhost:1/x?X-Signature={CANARY}"})


def texts_of(error: BaseException) -> str:
    parts: list[object] = [str(error), repr(error), error.args, *traceback.format_exception(error)]
    assert error.__context__ is None, "what is hidden from a traceback still travels with the error"
    assert error.__cause__ is None
    return "\n".join(map(str, parts))


@pytest.mark.parametrize("status", [200, 401, 429, 500, 503])
def test_a_token_that_the_provider_echoes_is_in_no_text(status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    request = Request("repos.get", f"/{status}", {"q": CANARY})
    with calling(echo) as caller, pytest.raises(errors.DevHopsError) as raised:
        caller.client.send(request)
    assert CANARY not in texts_of(raised.value)
    assert CANARY not in caplog.text
    assert CANARY not in repr([caller.client, caller.session, vars(caller.client)])


def test_a_token_in_a_connection_that_fails_is_in_no_text(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with calling(redirect) as caller, pytest.raises(errors.ProviderFault, match="Connection refused") as raised:
        caller.client.send(REPOSITORY)
    assert CANARY not in texts_of(raised.value)
    assert CANARY not in caplog.text


@pytest.mark.parametrize(
    "token", [f"{CANARY}\n", f"{CANARY}\r\nX-Other: 1", f" {CANARY} ", f"{CANARY}é", f"{CANARY}\x00"]
)
def test_a_token_that_no_header_may_hold_is_refused_without_its_text(token: str) -> None:
    with calling(always(Written()), signer=Token(token)) as caller, pytest.raises(errors.CredentialRefused) as raised:
        caller.client.send(REPOSITORY)
    assert CANARY not in texts_of(raised.value)
    assert "the Authorization header for github on github.com holds what no header may" in str(raised.value)
    assert caller.gate.permits == []


def test_an_answer_shows_neither_headers_nor_body() -> None:
    with calling(lambda _: Written(201, b'{"token": "%s"}' % CANARY.encode(), {"X-Token": CANARY})) as caller:
        answer = caller.client.send(Request("installation.token", "/t", document={}))
    assert answer.document == {"token": CANARY}
    assert CANARY not in repr(answer)


def test_nothing_is_taken_from_netrc_nor_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login stranger password secret\n")
    for name, value in {
        "NETRC": str(netrc),
        "HTTP_PROXY": "http://127.0.0.1:1",
        "http_proxy": "http://127.0.0.1:1",
        "ALL_PROXY": "http://127.0.0.1:1",
        "REQUESTS_CA_BUNDLE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(name, value)

    class Silent(Token):
        def headers(self) -> dict[str, str]:
            return {}

    with calling(always(Written())) as caller:
        caller.client.send(REPOSITORY)
        client_of(caller.server.url, caller.gate, caller.session, signer=Silent("")).send(REPOSITORY)
    sent = [seen.headers["Authorization"] for seen in caller.server.seen]
    assert sent == [f"Bearer {CANARY}", None]


def test_cookies_are_not_kept() -> None:
    with calling(always(Written(headers={"Set-Cookie": "session=1; Path=/"}))) as caller:
        caller.client.send(REPOSITORY)
        caller.client.send(REPOSITORY)
    assert "Cookie" not in caller.server.seen[1].headers


def test_a_proxy_is_used_when_it_is_given_and_its_password_is_in_no_message() -> None:
    with WebServer(always(Written(body=b'["through"]'))).running() as proxy, calling(always(Written())) as caller:
        session = Session(proxies={"http": f"http://user:{CANARY}@127.0.0.1:{proxy.port}"})
        answer = client_of(caller.server.url, RecordingGate(), session).send(REPOSITORY)
        session.close()
        seen = proxy.seen[0]
    assert answer.document == ["through"]
    assert base64.b64decode(seen.headers["Proxy-Authorization"].split()[1]).decode() == f"user:{CANARY}"
    gone = Session(proxies={"http": f"http://user:{CANARY}@127.0.0.1:{proxy.port}"})
    with pytest.raises(errors.ProviderFault, match="could not be reached through the proxy: ") as raised:
        client_of("http://127.0.0.1:9", RecordingGate(), gone).send(REPOSITORY)
    gone.close()
    assert CANARY not in texts_of(raised.value)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return own_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def encrypted(certificate: tuple[Path, Path]) -> Iterator[WebServer]:
    with WebServer(always(Written(is_last=True)), certificate[0]).running() as server:
        yield server


def test_a_certificate_that_nobody_signed_is_a_fault_that_names_tls(encrypted: WebServer) -> None:
    session = Session()
    client = client_of(encrypted.url, RecordingGate(), session)
    with pytest.raises(errors.ProviderFault, match="has a TLS certificate that is not accepted: self") as raised:
        client.send(REPOSITORY)
    session.close()
    assert raised.value.status is None
    assert encrypted.seen == []


def test_a_ca_bundle_of_an_enterprise_is_trusted(encrypted: WebServer, certificate: tuple[Path, Path]) -> None:
    session = Session(ca_bundle=certificate[1])
    client = client_of(encrypted.url, RecordingGate(), session)
    assert [client.send(REPOSITORY).status for _ in range(2)] == [200, 200]
    session.close()


def test_a_server_that_speaks_no_tls_is_a_fault_that_names_it() -> None:
    session = Session()
    with calling(always(Written())) as caller, pytest.raises(errors.ProviderFault, match="fails at TLS"):
        client_of(caller.server.url.replace("http", "https"), RecordingGate(), session).send(REPOSITORY)
    session.close()


def test_a_handshake_that_never_ends_is_given_up() -> None:
    session = Session(connect_seconds=0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = client_of(f"https://127.0.0.1:{silent.getsockname()[1]}", RecordingGate(), session)
        with pytest.raises(errors.ProviderFault, match="did not take the connection in time"):
            client.send(REPOSITORY)
    session.close()


def test_a_wrong_bundle_and_a_wrong_proxy_are_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.pem does not exist"):
        Session(ca_bundle=tmp_path / "none.pem")
    with pytest.raises(ValueError, match="neither http:// nor https://") as raised:
        Session(proxies={"https": f"socks5://user:{CANARY}@127.0.0.1"})
    assert CANARY not in str(raised.value)
