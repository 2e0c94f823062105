"""Names: how people write a repository or an account of GitHub, and where the API of a host is. Pure.

Pages: https://docs.github.com/en/rest/using-the-rest-api/getting-started-with-the-rest-api,
https://docs.github.com/en/enterprise-server@latest/graphql/guides/forming-calls-with-graphql (Enterprise Server)
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from worker_app import errors

PUBLIC_HOST = "github.com"
HOST = re.compile(r"(?=[^/]*[.:])[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?", re.IGNORECASE)
MOST_PORT = 65_535
OWNER = re.compile(r"[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?", re.IGNORECASE)  # _: accounts that a company manages
NAME = re.compile(r"[a-z0-9._-]+", re.IGNORECASE)
FORMS = "write acme/api, ghe.acme.com/acme/api, https://github.com/acme/api or git@github.com:acme/api.git"


@dataclass(frozen=True, slots=True)
class Place:
    """A repository by its name; `name` is None for everything that an account owns."""

    host: str  # as a person sees it
    owner: str
    name: str | None

    @property
    def full_name(self) -> str:
        """The name that GitHub uses: acme/api, or acme."""
        return f"{self.owner}/{self.name}" if self.name else self.owner


@dataclass(frozen=True, slots=True)
class Api:
    """The base URLs of the two APIs of one host."""

    rest: str
    graphql: str


def place(external_name: str) -> Place:
    """Read the name of a repository, or of an account. Raises UsageError for what is neither, or holds a password."""
    text = external_name.strip()
    if "://" in text:
        scheme, _, rest = text.partition("://")
        host, _, path = rest.partition("/")
        if scheme.lower() not in {"https", "ssh"}:
            raise _no_name(external_name)
        host = host.removeprefix("git@") if scheme.lower() == "ssh" else host
    elif text.startswith("git@"):
        host, _, path = text.removeprefix("git@").partition(":")
    else:
        first, _, rest = text.partition("/")
        host, path = (first, rest) if HOST.fullmatch(first) else (PUBLIC_HOST, text)
    owner, _, name = path.strip("/").partition("/")
    name = name.removesuffix(".git")
    port = host.rpartition(":")[2] if ":" in host else "443"
    if not (
        HOST.fullmatch(host) and int(port) <= MOST_PORT and OWNER.fullmatch(owner) and (not name or _is_name(name))
    ):
        raise _no_name(external_name)
    return Place(host.lower().removesuffix(":443"), owner, name or None)


def _is_name(name: str) -> bool:
    return NAME.fullmatch(name) is not None and name not in {".", ".."}


def _no_name(external_name: str) -> errors.UsageError:
    # Everything up to the last @ may be a password, and so may what follows ? or #: neither is repeated to anyone.
    shown, *rest = re.split(r"[?#]", re.sub(r"(?s)(^|://).*@", r"\1***@", external_name))
    fault = (
        "holds a `?` or a `#`; leave out what follows it"
        if rest
        else f"names no repository and no account of GitHub; {FORMS}"
    )
    return errors.UsageError(f"external_name {shown!r} {fault}")


def api(host: str, overrides: Mapping[str, str] | None = None) -> Api:
    """Where the APIs of `host` are; `overrides` holds the REST base URL of hosts that have another."""
    base = (overrides or {}).get(host, _rest_base(host)).rstrip("/")
    if base.endswith("/api/v3"):
        return Api(base, f"{base.removesuffix('/v3')}/graphql")
    return Api(base, f"{base}/graphql")


def _rest_base(host: str) -> str:
    if host == PUBLIC_HOST or host.endswith(".ghe.com"):  # Enterprise Cloud with data residency
        return f"https://api.{host}"
    return f"https://{host}/api/v3"
