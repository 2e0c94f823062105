"""The memory of a fake: answers that were given before, so that a bench measures its clients and not the making of answers.

It knows nothing of changes: whoever changes the world says `forget`.
"""

import json
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace

from worker_app.demo.messages import Request, Response

MOST = 20_000  # answers that are kept


class Memory:
    """Answers by request. Not locked: the caller holds the world's lock."""

    def __init__(self) -> None:
        self._known: OrderedDict[Hashable, Response] = OrderedDict()

    def recall(self, request: Request) -> Response | None:
        """A copy of the answer to the same request."""
        found = self._known.get(_key(request))
        return None if found is None else replace(found, headers=dict(found.headers), overrides={})

    def keep(self, request: Request, response: Response) -> None:
        """Keep an encoded answer, unless it tells of the quota, which is another one each time."""
        if b'"rateLimit"' in (response.body or b"") or request.path == "/rate_limit":
            return
        self._known[_key(request)] = replace(response, headers=dict(response.headers), overrides={})
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """The world has changed."""
        self._known.clear()


def _key(request: Request) -> Hashable:
    return request.method, request.base_url, request.target, json.dumps(request.document)
