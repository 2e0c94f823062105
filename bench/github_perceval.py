"""perceval as a process: reads the pull requests of some repositories and says as one line of JSON what it has read.

`python -m bench.github_perceval URL TOKEN THREADS MOST OWNER/NAME...`: its GitHub backend as it is, with what it fetches by
default, one backend a repository. A backend reads one item after the other; several of them can run in threads.
"""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from perceval.backends.core.github import CATEGORY_PULL_REQUEST, GitHub


def main(arguments: Sequence[str]) -> None:
    """Read, and print what was read: seconds of wall and of CPU, and the identities of the items."""
    url, token, threads, most, *names = arguments
    began, cpu_began = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(int(threads)) as pool:
        read = pool.map(lambda name: list(_read(url, token, name, int(most))), names)
        items = [item for part in read for item in part]
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    print(json.dumps({"seconds": seconds, "cpu_seconds": cpu_seconds, "items": items}))


def _read(url: str, token: str, full_name: str, most: int) -> Iterator[dict[str, Any]]:
    """The first `most` pull requests of a repository, each with the identities of what we store as well."""
    owner, name = full_name.split("/")
    backend = GitHub(owner=owner, repository=name, api_token=[token], base_url=url)
    for item in islice(backend.fetch(category=CATEGORY_PULL_REQUEST), most):
        data = item["data"]
        yield {
            "pull_request": str(data["id"]),
            "reviews": [str(review["id"]) for review in data["reviews_data"]],
            "commits": data["commits_data"],
            "comments_count": len(data["review_comments_data"]),
        }


if __name__ == "__main__":
    main(sys.argv[1:])
