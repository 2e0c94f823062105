"""The registry: which providers there are, what each yields, and who reads it. A new provider is one entry here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from worker_app import errors
from worker_app.providers import git
from worker_app.records import Reader
from worker_app.settings import Settings


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known of one provider without asking it."""

    datasets: tuple[str, ...]
    identity: Callable[[str], tuple[str, str]]  # external name -> (host, ext_id); raises UsageError
    public_address: Callable[
        [str], str
    ]  # external name -> what is stored and shown; raises UsageError for a secret in it
    reader: Callable[[Settings, str], Reader]  # (settings, dataset)


def _git_reader(settings: Settings, dataset: str) -> Reader:
    assert dataset == "commits"
    return git.GitReader(settings.git_mirrors_dir, allow_file=settings.git_allow_file)


PROVIDERS: Mapping[str, Provider] = {
    "git": Provider(
        datasets=("commits",), identity=git.identity, public_address=git.public_address, reader=_git_reader
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
