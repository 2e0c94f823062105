"""Connections: what one process needs to call providers, and how a client is made of it for one source.

A client lives as long as a batch and holds its credential; the gate, the pool of connections and the cache belong to the process.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from worker_app import errors
from worker_app.credentials.kinds import Credential
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, Priority
from worker_app.gate.policies import POLICIES
from worker_app.providers import api_address, github, github_address, github_signer
from worker_app.providers.client import NO_HEADERS, Answer, Client, Request, Signer
from worker_app.providers.http_cache import Cache
from worker_app.providers.http_session import Session
from worker_app.providers.installation_tokens import InstallationTokens
from worker_app.records import CredentialStamp
from worker_app.settings import Settings

# (organisation, credential, its stamp or None for the newest version); raises CredentialRefused
Resolve = Callable[[UUID, UUID, CredentialStamp | None], Credential]

MOST_SLEEP_SECONDS = 5.0  # that a limit may hold a slot


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom requests are made, by which credential, and how long one may sleep in the gate."""

    org_id: UUID
    host: str  # as a person sees it
    credential_id: UUID | None = None  # None: as anybody may
    priority: Priority = Priority.SYNC
    patience: Callable[[], float] = lambda: MOST_SLEEP_SECONDS  # seconds
    stamp: CredentialStamp | None = None  # of the credential; None: its newest version


@dataclass(frozen=True, slots=True)
class Connections:
    """What one process holds."""

    settings: Settings
    gate: Gate
    resolve: Resolve
    session: Session
    most_sleep_seconds: float = MOST_SLEEP_SECONDS  # that one request may sleep in the gate
    cache: Cache = field(default_factory=Cache)
    tokens: InstallationTokens = field(default_factory=InstallationTokens)

    def credential(self, caller: Caller) -> Credential | None:
        """What the caller's requests are signed with, opened anew; None: they are not. Raises CredentialRefused, StoreAway."""
        if caller.credential_id is None:
            return None
        credential = self.resolve(caller.org_id, caller.credential_id, caller.stamp)
        if credential.host != caller.host:
            raise errors.CredentialRefused(
                f"the source is on {caller.host} and its credential is for {credential.host}: give it one of its own host with "
                "`dev-hops sources add --credential`"
            )
        return credential

    def github(self, caller: Caller) -> tuple[Client, github_address.Api]:
        """A client of GitHub, and where its APIs are. Raises CredentialRefused."""
        api = github_address.api(caller.host, dict(self.settings.provider_api_urls))
        credential = self.credential(caller)

        def exchange(request: Request, signer: Signer) -> Answer:
            return self.client("github", caller, signer).send(request)

        signer = github_signer.signer(credential, caller.org_id, tokens=self.tokens, exchange=exchange)
        return self.client("github", caller, signer), api

    def client(self, provider: str, caller: Caller, signer: Signer) -> Client:
        """A client of any provider's API, for requests that `signer` signs."""
        return Client(
            api_address.base_url(provider, caller.host, dict(self.settings.provider_api_urls)),
            key=GateKey(provider, str(caller.org_id), caller.host),
            policy=POLICIES[provider],
            gate=self.gate,
            signer=signer,
            session=self.session,
            cache=self.cache,
            headers=github.CLIENT_HEADERS if provider == "github" else NO_HEADERS,
            priority=caller.priority,
            max_wait=lambda: min(self.most_sleep_seconds, caller.patience()),
        )

    def close(self) -> None:
        """Close what is open."""
        self.session.close()
        self.gate.close()
