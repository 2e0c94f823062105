"""Signers for GitHub: what a request to it is signed with. A secret is revealed here and nowhere else on its way to a provider.

A personal access token signs for itself. An App signs a short JWT by its private key, and gets a token of its installation
for it, which signs everything else. Pages:
https://docs.github.com/en/apps/creating-github-apps/authenticating-with-a-github-app/generating-a-json-web-token-jwt-for-a-github-app
https://docs.github.com/en/rest/apps/apps#create-an-installation-access-token-for-an-app
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from uuid import UUID

import jwt

from worker_app import errors
from worker_app.credentials.kinds import Credential, GitHubApp, GitHubToken
from worker_app.providers import header_signer
from worker_app.providers.client import ANONYMOUS, Answer, Request, Signer
from worker_app.providers.header_signer import digest
from worker_app.providers.installation_tokens import InstallationTokens, Token, TokenKey, fresh_seconds
from worker_app.secret import Secret

BACKDATED_SECONDS = 60  # a JWT from the future is refused, and this clock may be ahead of GitHub's
JWT_SECONDS = 600  # from iat to exp: the most that GitHub takes
CREATED, FORBIDDEN, NOT_FOUND = 201, 403, 404

Exchange = Callable[[Request, Signer], Answer]  # sends one request, signed by this signer, as a client does


class AnonymousSigner:
    """Signs nothing: what anybody may read, with the small quota of an address."""

    generation = ANONYMOUS

    def headers(self) -> Mapping[str, str]:
        """No headers."""
        return {}

    def renew(self) -> bool:
        """There is nothing to renew."""
        return False


class AppSigner:
    """Signs by the installation token of an App; one signer a batch, `tokens` belong to the process.

    A token is fetched through `exchange`, in the gate's bucket `auth`, when `headers` or `renew` need one. `now` is the clock
    of the JWT in Unix seconds; the life of a token goes by the Date of GitHub's reply.
    """

    def __init__(
        self,
        credential: GitHubApp,
        org_id: UUID,
        *,
        tokens: InstallationTokens,
        exchange: Exchange,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._credential = credential
        self._tokens = tokens
        self._exchange = exchange
        self._now = now
        self._key = TokenKey(
            org_id,
            credential.host,
            credential.app_id,
            credential.installation_id,
            digest(credential.private_key),
        )
        self._used: Token | None = None

    def headers(self) -> Mapping[str, str]:
        """The installation token, fetched where none is fresh.

        Raises CredentialRefused when GitHub gives this App none, ProviderFault when it answers without one, and the gate's
        deferrals.
        """
        self._used = self._tokens.get(self._key, self._fetch)
        return _bearer(self._used.text)

    def renew(self) -> bool:
        """Fetch another token, unless somebody has done so since; raises what `headers` does."""
        refused = self._used
        self._used = self._tokens.get(self._key, self._fetch, refused=refused)
        return refused is None or self._used.text != refused.text

    @property
    def generation(self) -> str:
        """A digest of the token that the last headers held."""
        return "" if self._used is None else digest(self._used.text)

    def _fetch(self) -> Token:
        began = self._tokens.clock()  # before it was made, so that its life here ends no later than at GitHub
        answer = self._asked()
        if answer.status != CREATED:
            raise errors.CredentialRefused(self._refusal(answer.status))
        text, life = _token_in(answer)
        if text is None or life <= 0:
            raise errors.ProviderFault(
                f"GitHub at {self._key.host} gave {self._named} no token that can be used", status=answer.status
            )
        return Token(text, began + fresh_seconds(life))

    def _asked(self) -> Answer:
        url = f"/app/installations/{self._key.installation_id}/access_tokens"
        status = None
        try:
            return self._exchange(
                Request("installation.token", url, document={}), JwtSigner(self._credential, self._now)
            )
        except errors.CredentialMalformed:
            raise
        except errors.CredentialRefused as error:
            raise errors.CredentialRefused(
                f"GitHub at {self._key.host} does not take the signature of {self._named} (401): its id or its private key is "
                "wrong, or the clock of this machine is off by more than a minute"
            ) from error
        except errors.ProviderFault as error:
            status = error.status
            if status is None or not 200 <= status < 300:
                raise
        # Outside the except: words about a broken reply may quote it, and this one holds a token.
        raise errors.ProviderFault(f"GitHub at {self._key.host} gave {self._named} a broken reply", status=status)

    @property
    def _named(self) -> str:
        return f"App {self._key.app_id}, installation {self._key.installation_id},"

    def _refusal(self, status: int) -> str:
        reasons = {
            FORBIDDEN: "it is suspended; whoever owns the installation can end that",
            NOT_FOUND: "there is no such installation of it (any more): install the App, or add the credential anew",
        }
        reason = reasons.get(status, "look at the App's settings there")
        return f"GitHub at {self._key.host} gives {self._named} no token ({status}): {reason}"


class JwtSigner:
    """Signs as an App itself, by a JWT of ten minutes, which is good for asking about its installations and for tokens."""

    generation = "app"

    def __init__(self, credential: GitHubApp, now: Callable[[], float] = time.time) -> None:
        self._credential = credential
        self._now = now

    def headers(self) -> Mapping[str, str]:
        """A new JWT. Raises CredentialMalformed when the private key signs nothing."""
        issued = int(self._now()) - BACKDATED_SECONDS
        claims = {"iat": issued, "exp": issued + JWT_SECONDS, "iss": str(self._credential.app_id)}
        signed = _signed(claims, self._credential.private_key)
        if signed is None:
            raise errors.CredentialMalformed(
                f"the private key of App {self._credential.app_id} at {self._credential.host} is none; add it anew"
            )
        return _bearer(signed)

    def renew(self) -> bool:
        """Another JWT would say the same."""
        return False


def signer(credential: Credential | None, org_id: UUID, *, tokens: InstallationTokens, exchange: Exchange) -> Signer:
    """Who signs the requests of a batch for an organisation; without a credential nobody does.

    Raises CredentialRefused for a credential of another provider.
    """
    match credential:
        case None:
            return AnonymousSigner()
        case GitHubToken():
            return header_signer.signer(credential)
        case GitHubApp():
            return AppSigner(credential, org_id, tokens=tokens, exchange=exchange)
    raise errors.CredentialRefused(
        f"a {credential.kind} for {credential.host} signs nothing that GitHub takes: give the source a credential of github"
    )


def _bearer(secret: Secret) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret.reveal()}"}


def _signed(claims: dict[str, object], private_key: Secret) -> Secret | None:
    """The JWT; None for a key that signs nothing. The library's own error stays here: it may quote the key."""
    try:
        return Secret(jwt.encode(claims, private_key.reveal(), algorithm="RS256"))
    except (jwt.PyJWTError, ValueError, TypeError):
        return None


def _token_in(answer: Answer) -> tuple[Secret | None, float]:
    """The token of a reply, None where there is none, and its life in seconds by the reply's own Date."""
    document = answer.document if isinstance(answer.document, dict) else {}
    text, ends = document.get("token"), _moment(document.get("expires_at"))
    if not isinstance(text, str) or not text or ends is None:
        return None, 0.0
    return Secret(text), (ends - (answer.now or datetime.now(UTC))).total_seconds()


def _moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)
