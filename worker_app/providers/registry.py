"""The registry: which providers there are, what each yields, and who reads it. A new provider is one entry here."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from worker_app import errors
from worker_app.providers import git, github, github_address
from worker_app.providers.connections import Caller, Connections
from worker_app.records import Reader, Source

Patience = Callable[[], float]  # seconds that one request may sleep in the gate


@dataclass(frozen=True, slots=True)
class Named:
    """What a person means by a name, before anybody is asked."""

    host: str
    external_name: str  # what is stored and shown
    ext_id: str | None  # the provider's identity; None: the provider has to be asked for it


@dataclass(frozen=True, slots=True)
class Found:
    """A source as its provider knows it, or why some could not be listed."""

    external_name: str
    ext_id: str
    withheld: str | None = None  # why the list lacks some, in words for a person


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known of one provider without asking it, and how it is asked."""

    datasets: tuple[str, ...]
    named: Callable[[str], Named]  # raises UsageError for no name, and for one with a secret in it
    reader: Callable[[Connections, Source, str, Patience], Reader]  # (…, dataset, …); raises CredentialRefused
    # (connections, caller, what was named) -> one source, or all of an account; None: the name tells it all
    find: Callable[[Connections, Caller, Named], Iterator[Found]] | None = None
    # (external_name, kind of the credential or None); raises UsageError where the one is not read with the other
    check_kind: Callable[[str, str | None], None] = lambda _, __: None
    buckets: Mapping[str, str] = field(default_factory=dict)  # dataset -> bucket of the gate; none: it has no gate


def _git_named(name: str) -> Named:
    shown, (host, ext_id) = git.public_address(name), git.identity(name)
    return Named(host, shown, ext_id)


def _git_reader(connections: Connections, source: Source, dataset: str, _: Patience) -> Reader:
    assert dataset == "commits"
    settings = connections.settings
    caller = Caller(source.org_id, source.host, source.credential_id, stamp=source.stamp)
    return git.GitReader(
        settings.git_mirrors_dir,
        connections.credential(caller),
        authorities=settings.provider_ca_bundle,
        allow_file=settings.git_allow_file,
    )


def _github_named(name: str) -> Named:
    host, full_name = github.identity(name)
    return Named(host, full_name, None)


def _github_find(connections: Connections, caller: Caller, named: Named) -> Iterator[Found]:
    client, _ = connections.github(caller)
    place = github_address.place(f"https://{named.host}/{named.external_name}")
    if place.name is not None:
        described = github.describe(client, place.owner, place.name)
        yield Found(described.full_name, described.record.ext_id)
        return
    for listing in github.list_repositories(client, place.owner):
        for described in listing.found:
            yield Found(described.full_name, described.record.ext_id, listing.reason)


def _github_reader(connections: Connections, source: Source, dataset: str, patience: Patience) -> Reader:
    caller = Caller(source.org_id, source.host, source.credential_id, patience=patience, stamp=source.stamp)
    client, api = connections.github(caller)
    return github.GitHubReader(client, api, dataset)


GRAPHQL_DATASETS = frozenset({"commits", "pull_requests"})

PROVIDERS: Mapping[str, Provider] = {
    "git": Provider(datasets=("commits",), named=_git_named, reader=_git_reader, check_kind=git.check_kind),
    "github": Provider(
        datasets=github.DATASETS,
        named=_github_named,
        reader=_github_reader,
        find=_github_find,
        buckets={name: "graphql" if name in GRAPHQL_DATASETS else "core" for name in github.DATASETS},
    ),
}


def provider(name: str) -> Provider:
    """The provider called `name`. Raises UsageError that names those there are."""
    try:
        return PROVIDERS[name]
    except KeyError:
        raise errors.UsageError(f"provider is {name!r}: there are {', '.join(sorted(PROVIDERS))}") from None


def datasets(name: str) -> tuple[str, ...]:
    """What a provider yields, one batch each."""
    return provider(name).datasets
