"""Connections: what one process needs to call providers, and how a client is made of it for one source.

A client lives as long as a batch and holds its credential; the gate, the pool of connections and the cache belong to the process.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from worker_app import errors
from worker_app.credentials.kinds import Credential
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, Priority
from worker_app.gate.policies import POLICIES
from worker_app.providers import github, github_address, github_signer
from worker_app.providers.client import Answer, Client, Request, Signer
from worker_app.providers.http_cache import Cache
from worker_app.providers.http_session import Session
from worker_app.providers.installation_tokens import InstallationTokens
from worker_app.settings import Settings

MOST_SLEEP_SECONDS = 5.0  # that a limit may hold a slot


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom requests are made, by which credential, and how long one may sleep in the gate."""

    org_id: UUID
    host: str  # as a person sees it
    credential_id: UUID | None = None  # None: as anybody may
    priority: Priority = Priority.SYNC
    patience: Callable[[], float] = lambda: MOST_SLEEP_SECONDS  # seconds


@dataclass(frozen=True, slots=True)
class Connections:
    """What one process holds."""

    settings: Settings
    gate: Gate
    resolve: Callable[[UUID, UUID], Credential]  # (organisation, credential); raises CredentialRefused
    session: Session
    most_sleep_seconds: float = MOST_SLEEP_SECONDS  # that one request may sleep in the gate
    cache: Cache = field(default_factory=Cache)
    tokens: InstallationTokens = field(default_factory=InstallationTokens)

    def github(self, caller: Caller) -> tuple[Client, github_address.Api]:
        """A client of GitHub, and where its APIs are. Raises CredentialRefused."""
        api = github_address.api(caller.host, dict(self.settings.provider_api_urls))
        credential = None if caller.credential_id is None else self.resolve(caller.org_id, caller.credential_id)
        if credential is not None and credential.host != caller.host:
            raise errors.CredentialRefused(
                f"the source is on {caller.host} and its credential is for {credential.host}: give it one of its own host with "
                "`dev-hops sources add --credential`"
            )

        def exchange(request: Request, signer: Signer) -> Answer:
            return self._client("github", api.rest, caller, signer, github.CLIENT_HEADERS).send(request)

        signer = github_signer.signer(credential, caller.org_id, tokens=self.tokens, exchange=exchange)
        return self._client("github", api.rest, caller, signer, github.CLIENT_HEADERS), api

    def close(self) -> None:
        """Close what is open."""
        self.session.close()
        self.gate.close()

    def _client(
        self, provider: str, base_url: str, caller: Caller, signer: Signer, headers: Mapping[str, str]
    ) -> Client:
        return Client(
            base_url,
            key=GateKey(provider, str(caller.org_id), caller.host),
            policy=POLICIES[provider],
            gate=self.gate,
            signer=signer,
            session=self.session,
            cache=self.cache,
            headers=headers,
            priority=caller.priority,
            max_wait=lambda: min(self.most_sleep_seconds, caller.patience()),
        )
