"""Scenario C7: tokens that live two seconds and fifty batches, on real sockets with a server that checks every signature."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import jwt
import pytest

from tests import private_keys
from tests.gates import RecordingGate
from tests.web_server import Seen, WebServer, Written
from worker_app import errors
from worker_app.credentials.kinds import GitHubApp, GitHubToken
from worker_app.gate import policies
from worker_app.gate.key import GateKey
from worker_app.providers import github_signer
from worker_app.providers.client import Answer, Client, Request, Signer
from worker_app.providers.http_cache import Cache
from worker_app.providers.http_session import Session
from worker_app.providers.installation_tokens import InstallationTokens
from worker_app.secret import Secret

pytestmark = pytest.mark.integration
ORG = UUID(int=1)
BATCHES = 50
DEADLINE = 25.0
OVER = datetime.min.replace(tzinfo=UTC)
PAUSE_SECONDS = 0.4  # that a request takes: fifty batches are a crowd, and no load test


class Tokens:
    """A GitHub that gives tokens of `life` or a little more to whoever signs as App 7, and takes them while they live."""

    def __init__(self, life: timedelta) -> None:
        self.life = life
        self.server = WebServer(self.respond)
        self.ends: dict[str, datetime] = {}
        self.served: dict[str, int] = {}
        self.takes_none = False
        self.refused = 0
        self.asking = 0  # requests for a token that are under way
        self.most_asking = 0
        self._lock = threading.Lock()

    def respond(self, seen: Seen) -> Written:
        scheme, _, text = (seen.headers["Authorization"] or "").partition(" ")
        assert scheme == "Bearer"
        if seen.target == "/app/installations/42/access_tokens":
            return self._created(seen, text)
        with self._lock:
            if self.takes_none or self.ends.get(text, OVER) <= datetime.now(UTC):
                self.refused += 1
                return Written(401, b'{"message": "Bad credentials"}')
            self.served[text] += 1
        self.server.is_over.wait(PAUSE_SECONDS)
        return Written(200, json.dumps({"login": text}).encode())

    def _created(self, seen: Seen, text: str) -> Written:
        assert (seen.method, seen.body) == ("POST", b"{}")
        try:
            claims = jwt.decode(text, private_keys.rsa_key().public_key(), algorithms=["RS256"], issuer="7")
        except jwt.InvalidSignatureError:
            return Written(401, b'{"message": "A JSON web token could not be decoded"}')
        assert claims["exp"] - claims["iat"] == 600
        with self._lock:
            self.asking += 1
            self.most_asking = max(self.most_asking, self.asking)
            token, ends = f"ghs_{len(self.ends)}", _next_second() + self.life
            self.ends[token], self.served[token] = ends, 0
        self.server.is_over.wait(PAUSE_SECONDS)
        with self._lock:
            self.asking -= 1
        body = json.dumps({"token": token, "expires_at": ends.strftime("%Y-%m-%dT%H:%M:%SZ")})
        return Written(201, body.encode())

    def end(self, token: str) -> None:
        """Let a token die before its time."""
        with self._lock:
            self.ends[token] = OVER


def _next_second() -> datetime:
    """What GitHub writes is whole seconds; rounded up, so that a token lives as long as it should."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)


class World:
    """What the batches of one worker share, and the clients that they make."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.gate = RecordingGate()
        self.session = Session(slots=BATCHES)
        self.cache = Cache()
        self.tokens = InstallationTokens()
        key = private_keys.pem(private_keys.rsa_key())
        self.app = GitHubApp("github.localhost", 7, 42, Secret(key))

    def client(self, signer: Signer) -> Client:
        return Client(
            self.url,
            key=GateKey("github", str(ORG), "github.localhost"),
            policy=policies.GITHUB,
            gate=self.gate,
            signer=signer,
            session=self.session,
            cache=self.cache,
        )

    def exchange(self, request: Request, signer: Signer) -> Answer:
        return self.client(signer).send(request)

    def batch(self, app: GitHubApp | GitHubToken | None = None) -> Client:
        return self.client(github_signer.signer(app or self.app, ORG, tokens=self.tokens, exchange=self.exchange))


@contextmanager
def served(life: timedelta) -> Iterator[tuple[Tokens, World]]:
    """A server whose tokens have a life, and the world of a worker that asks it."""
    github = Tokens(life)
    with github.server.running():
        world = World(github.server.url)
        try:
            yield github, world
        finally:
            world.session.close()


def at_once(work: Callable[[], object]) -> None:
    """Fifty batches do the same; the first error of any is raised."""
    with ThreadPoolExecutor(BATCHES) as pool:
        for done in [pool.submit(work) for _ in range(BATCHES)]:
            done.result(DEADLINE)


def ask(client: Client) -> str:
    """The token that a request was served with."""
    return str(client.send(Request("user.get", "/user")).document["login"])


def test_fifty_batches_fetch_a_token_once_per_life_and_none_fails() -> None:
    with served(timedelta(seconds=2)) as (github, world):
        began = time.monotonic()

        def work() -> None:
            batch = world.batch()
            while len(github.ends) < 3:
                ask(batch)
                assert time.monotonic() < began + DEADLINE

        at_once(work)
        assert len(github.ends) <= 1 + (time.monotonic() - began) / 2
        assert github.most_asking == 1
        assert all(list(github.served.values())[:2])


def test_fifty_batches_whose_token_dies_before_its_time_fetch_one_other() -> None:
    with served(timedelta(hours=1)) as (github, world):
        batches = iter([world.batch() for _ in range(BATCHES)] * 4)
        for number in range(4):
            at_once(lambda: ask(next(batches)))
            assert list(github.ends) == [f"ghs_{earlier}" for earlier in range(number + 1)]
            github.end(f"ghs_{number}")
        assert github.refused >= 3
        assert sum(github.served.values()) == 4 * BATCHES


def test_token_is_fetched_outside_the_slot_of_the_request_that_needs_it() -> None:
    with served(timedelta(hours=1)) as (github, world):
        world.gate = RecordingGate(most=1)
        batch = world.batch()
        assert ask(batch) == "ghs_0"
        github.end("ghs_0")
        assert ask(batch) == "ghs_1"
        names = [permit.endpoint for permit in world.gate.permits]
        assert names == ["installation.token", "user.get", "user.get", "installation.token", "user.get"]


def test_token_that_is_never_taken_is_renewed_once_and_then_refused() -> None:
    with served(timedelta(hours=1)) as (github, world):
        github.takes_none = True
        with pytest.raises(errors.CredentialRefused, match="does not take the credential"):
            ask(world.batch())
        assert (len(github.ends), github.refused) == (2, 2)


def test_personal_token_that_is_not_taken_is_refused_at_once() -> None:
    with served(timedelta(hours=1)) as (github, world):
        with pytest.raises(errors.CredentialRefused) as caught:
            ask(world.batch(GitHubToken("github.localhost", Secret("ghp_canary8f3a"))))
        assert github.refused == 1
        assert "ghp_canary8f3a" not in str(caught.value)


def test_signature_by_another_key_is_refused_with_the_remedy() -> None:
    with served(timedelta(hours=1)) as (github, world):
        other = replace(world.app, private_key=Secret(private_keys.pem(private_keys.another_rsa_key())))
        with pytest.raises(errors.CredentialRefused, match="its id or its private key is wrong"):
            ask(world.batch(other))
        assert github.ends == {}
