"""The fake as tests start it: a world behind a socket, in a thread of this process.

with FakeGitHub(generate(Recipe(seed=7))) as fake:
    requests.get(f"{fake.url}/repos/acme/api", headers={"authorization": f"Bearer {fake.token}"})
"""

from types import TracebackType
from typing import Any, Self

from worker_app.demo.credentials import TOKEN, App, Credentials
from worker_app.demo.faults import Faults
from worker_app.demo.limits import Episode, Rules
from worker_app.demo.log import Log
from worker_app.demo.server import Latency, Server
from worker_app.demo.service import Check, Hook, Service
from worker_app.demo.truth import truth
from worker_app.demo.world import World


class ContractBreach(AssertionError):
    """A request or an answer is not what GitHub's official description allows."""


class FakeGitHub:
    """One GitHub on loopback, a context manager. `check` examines every exchange; a breach fails the block.

    `remembers`: the same request gets the same answer until `forget`, which makes it fast enough for benches.
    """

    def __init__(
        self,
        world: World,
        *,
        rules: Rules = Rules(),  # noqa: B008 - frozen
        tokens: dict[str, str] | None = None,
        app: App = App(),  # noqa: B008 - frozen
        latency: Latency | None = None,
        null_users: bool = False,
        remembers: bool = False,
        check: Check | None = None,
        port: int = 0,
    ) -> None:
        self.world = world
        self.token = TOKEN
        known = {"demo": TOKEN} if tokens is None else tokens
        self.credentials = Credentials(known, app)
        self.service = Service(world, self.credentials, rules, check=check, null_users=null_users, remembers=remembers)
        self._server = Server(self.service, port=port, latency=latency)

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()
        if error is None:
            self.require_no_breach()

    @property
    def url(self) -> str:
        """Base of REST, without a slash at its end; GraphQL is at `<url>/graphql`."""
        return self._server.url

    @property
    def enterprise_url(self) -> str:
        """The same as an Enterprise host has it; GraphQL is at `<host>/api/graphql`."""
        return f"{self.url}/api/v3"

    @property
    def log(self) -> Log:
        """Every request so far."""
        return self.service.log

    @property
    def faults(self) -> Faults:
        """What it does wrong."""
        return self.service.faults

    @property
    def latency(self) -> Latency:
        """How slow it is; may be changed while it runs."""
        return self._server.latency

    @property
    def episodes(self) -> list[Episode]:
        """The times that a limit was closed."""
        return self.service.limits.episodes

    def truth(self) -> dict[str, dict[str, Any]]:
        """Full name of a repository to what a complete sync of it must hold."""
        return truth(self.world, self.service.viewer)

    def before_each_answer(self, hook: Hook) -> None:
        """Call `hook` with the request before an answer is made; it holds the world's lock and may change the world."""
        self.service.hooks.append(hook)

    def forget(self) -> None:
        """Say that the world was changed, where the fake remembers its answers."""
        with self.world.lock:
            self.service.forget()

    def require_no_breach(self) -> None:
        """ContractBreach where an exchange was not what the official description allows."""
        if self.service.breaches:
            raise ContractBreach("\n".join(map(str, self.service.breaches)))
