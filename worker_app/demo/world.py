"""The world: organisations, accounts and repositories, found by name, number and node id. Readers and writers hold `lock`."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import TypeVar

from worker_app.demo.node_ids import node_id
from worker_app.demo.things import Account, Repository, Thread

FIRST_ID = 2_310_943_199  # above 2^31, as GitHub's ids are by now
GHOST_ID = 10_137

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a thing stands."""

    thing: object
    repository: Repository | None = None
    thread: Thread | None = None


class World:
    """Everything that one GitHub knows."""

    def __init__(self, *, first_id: int = FIRST_ID, born_at: datetime) -> None:
        self.lock = threading.RLock()
        self.accounts: dict[str, Account] = {}
        self.repositories: dict[int, Repository] = {}
        self.places: dict[str, Place] = {}
        self.ids: Iterator[int] = count(first_id)
        self.ghost = Account(GHOST_ID, node_id("U", GHOST_ID), "ghost", "User", born_at)

    def settle(self, thing: T, repository: Repository | None = None, thread: Thread | None = None) -> T:
        """Make `thing`, which has a `node_id`, known by it; returns `thing`."""
        self.places[thing.node_id] = Place(thing, repository, thread)  # type: ignore[attr-defined]
        return thing

    def new_id(self, prefix: str, repository: Repository | None = None) -> tuple[int, str]:
        """An id that nothing has, and the node id that belongs to it."""
        number = next(self.ids)
        owner = () if repository is None else (repository.id,)
        return number, node_id(prefix, *owner, number)

    def add_account(self, login: str, kind: str, created_at: datetime) -> Account:
        """A new account of that kind."""
        prefix = {"User": "U", "Bot": "BOT", "Mannequin": "M", "Organization": "O"}[kind]
        number, node = self.new_id(prefix)
        self.accounts[login] = self.settle(Account(number, node, login, kind, created_at))
        return self.accounts[login]

    def add_repository(self, owner: Account, name: str, created_at: datetime) -> Repository:
        """A new, empty repository."""
        number, node = self.new_id("R")
        made = Repository(number, node, owner, name, created_at, updated_at=created_at, pushed_at=created_at)
        self.repositories[number] = self.settle(made)
        return made

    def named(self, full_name: str) -> Repository | None:
        """The repository that has this name now. Names are the same in any case."""
        wanted = full_name.lower()
        return next((found for found in self._living() if found.full_name.lower() == wanted), None)

    def formerly_named(self, full_name: str) -> Repository | None:
        """The repository that once had this name, unless another has it now."""
        wanted = full_name.lower()
        return next((found for found in self._living() if wanted in map(str.lower, found.former_names)), None)

    def move(self, repository: Repository, *, owner: Account | None = None, name: str | None = None) -> None:
        """Give it another owner, another name or both. Its old name leads to it until another repository takes it."""
        repository.former_names.append(repository.full_name)
        repository.owner, repository.name = owner or repository.owner, name or repository.name

    def owner(self, login_or_number: str) -> Account | None:
        """The account of that login, in any case, or of that number."""
        wanted = login_or_number.lower()
        known = (self.ghost, *self.accounts.values())
        return next((found for found in known if wanted in {found.login.lower(), str(found.id)}), None)

    def of_owner(self, login: str) -> list[Repository]:
        """The repositories of an account, by id."""
        return [found for found in self._living() if found.owner.login.lower() == login.lower()]

    def _living(self) -> list[Repository]:
        return [found for found in self.repositories.values() if not found.is_deleted]
