"""Both stores of one folder together: what `dev-hops up --stores` and the tests' session start."""

from contextlib import ExitStack
from dataclasses import dataclass, field

from worker_app.embedded.folder import Folder
from worker_app.embedded.postgres import EmbeddedPostgres
from worker_app.embedded.valkey import EmbeddedValkey


@dataclass(frozen=True, slots=True)
class StoreAddresses:
    """The URLs of the running stores, with their passwords; the repr shows none."""

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)


class Stores:
    """Postgres and Valkey of one folder, which is prepared here; the caller holds its lock.

    `durable=False` is for tests: nothing survives a crash of the machine.
    The ports are wanted, not promised; the addresses tell the ones that were taken. `run_as` names the user whom root runs
    a new Postgres as.
    """

    def __init__(
        self,
        folder: Folder,
        *,
        durable: bool = True,
        postgres_port: int | None = None,
        valkey_port: int | None = None,
        run_as: str | None = None,
    ) -> None:
        folder.prepare()
        passwords = folder.secrets()
        self.postgres = EmbeddedPostgres(
            folder.path, password=passwords.postgres, port=postgres_port, durable=durable, run_as=run_as
        )
        self.valkey = EmbeddedValkey(folder.path, password=passwords.valkey, port=valkey_port, durable=durable)

    def start(self) -> StoreAddresses:
        """Start both, or adopt the ones that run. Raises EmbeddedStoreError when one fails; then neither is left running."""
        with ExitStack() as undo:
            undo.callback(self.stop)
            self.postgres.start()
            self.valkey.start()
            undo.pop_all()
        return StoreAddresses(self.postgres.dsn, self.valkey.url)

    def stop(self) -> None:
        """Stop both. Idempotent."""
        try:
            self.valkey.stop()
        finally:
            self.postgres.stop()

    def delete_data(self) -> None:
        """Stop both and remove their data, also where it lies outside the folder; the passwords stay."""
        self.valkey.delete_data()
        self.postgres.delete_data()
