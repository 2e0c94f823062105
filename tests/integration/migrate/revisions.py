"""Revisions that a test brings: this program's, and one more behind them."""

import shutil
from pathlib import Path

from worker_app.migrate import steps
from worker_app.migrate.steps import Series

NEXT = steps.postgres().newest + 1
REVISION = '''"""A revision of a test."""

from alembic import op

from worker_app.migrations.postgres import indexes

revision = "{number:04}"
down_revision = "{before:04}"


def upgrade() -> None:
    """Change what the test wants."""
    {body}
'''


def series(folder: Path, *bodies: str, compatible_from: int = 1) -> Series:
    """This program's revisions and one for each of `bodies`, Python statements, in `folder`; called again, it edits them."""
    folder.mkdir(exist_ok=True)
    for path in steps.postgres().folder.glob("*.py"):
        shutil.copy(path, folder)
    for number, body in enumerate(bodies, start=NEXT):
        text = REVISION.format(number=number, before=number - 1, body=body)
        (folder / f"{number:04}_synthetic.py").write_text(text)
    return steps.read("postgres", folder, ".py", dict.fromkeys(range(1, NEXT + len(bodies)), compatible_from))


def sql(*statements: str) -> str:
    """The body that runs these statements in order."""
    return "; ".join(f"op.execute({statement!r})" for statement in statements)
