"""Two releases of one image for a rolling update: the product with the made-up provider, told apart by a variable."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tests.compose import made_up
from tests.containers import IMAGE, docker

RELEASES = ("old", "new")
DOCKERFILE = f"""\
FROM {IMAGE}
ARG RELEASE
ENV RELEASE=$RELEASE
USER 0
COPY made_up.py provider.py /tmp/
RUN cd /app/.venv/lib/python3*/site-packages && cp /tmp/made_up.py . \\
    && cat /tmp/provider.py >>worker_app/providers/registry.py && rm worker_app/providers/__pycache__/registry.*.pyc
USER 10001:10001
"""
PROVIDER = """
from dataclasses import replace

from made_up import MadeUpReader

PROVIDERS = {**PROVIDERS, "git": replace(PROVIDERS["git"], reader=lambda *_: MadeUpReader())}
"""


@contextmanager
def releases(folder: Path) -> Iterator[tuple[str, str]]:
    """The tags of the old and of the new image; both are removed at the end."""
    folder.mkdir()
    shutil.copy(made_up.__file__, folder / "made_up.py")
    (folder / "provider.py").write_text(PROVIDER)
    (folder / "Dockerfile").write_text(DOCKERFILE)
    name = f"devhops-test-{uuid4().hex[:8]}"
    old, new = tags = tuple(f"{name}:{release}" for release in RELEASES)
    try:
        for tag, release in zip(tags, RELEASES, strict=True):
            docker(
                "build", "--quiet", "--network", "none", "--build-arg", f"RELEASE={release}", "--tag", tag, str(folder)
            )
        yield old, new
    finally:
        docker("image", "rm", "--force", *tags)
