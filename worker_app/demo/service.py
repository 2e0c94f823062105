"""The service: what happens to one request between its last byte and the first byte of the answer.

Credential, limits, the answer from the world, condition, faults, headers: in this order. It knows no socket and never waits.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from worker_app.demo import answers, conditions, faults, quota
from worker_app.demo.credentials import Credential, Credentials
from worker_app.demo.faults import Faults
from worker_app.demo.graphql_door import GraphQLDoor
from worker_app.demo.graphql_lists import Call
from worker_app.demo.history import ancestry
from worker_app.demo.limits import CORE, GRAPHQL, Limits, Quota, Rules, Verdict
from worker_app.demo.log import Entry, Log
from worker_app.demo.memory import Memory
from worker_app.demo.messages import Request, Response
from worker_app.demo.rest import Rest, endpoint_of
from worker_app.demo.things import Commit, Repository
from worker_app.demo.world import World

AUTH = "auth"
SCOPES = {
    "x-oauth-scopes": "read:org, repo",
    "x-accepted-oauth-scopes": "repo",
}  # of a person's token; an App's has none
Check = Callable[[Request, Response], None]  # raises AssertionError where one of them breaks the official description
Hook = Callable[[Request], object]  # runs before an answer is made and may change the world


@dataclass(slots=True)
class Exchange:
    """One request on its way to an answer."""

    request: Request
    credential: Credential | None
    bucket: str
    endpoint: str
    cost: int
    verdict: Verdict
    response: Response = field(default_factory=lambda: Response(500))


class Service:
    """One GitHub."""

    def __init__(
        self,
        world: World,
        credentials: Credentials,
        rules: Rules,
        *,
        check: Check | None = None,
        null_users: bool = False,
        remembers: bool = False,
    ) -> None:
        self.world = world
        self.credentials = credentials
        self.limits = Limits(rules)
        self.faults = Faults()
        self.log = Log()
        self.hooks: list[Hook] = []
        self.breaches: list[AssertionError] = []
        self.viewer = next(one for one in world.accounts.values() if one.kind == "User")
        self._rest = Rest(world, null_users=null_users)
        self._graphql = GraphQLDoor()
        self._memory = Memory() if remembers else None
        self._check = check
        self._history = lru_cache(maxsize=64)(_history)

    def answer(self, request: Request) -> Exchange:
        """Make the answer. The request counts as in flight until `end` is called."""
        with self.world.lock:
            exchange = self._arrive(request)
            response = self._refusal(exchange) or self._remembered(exchange)
            response = conditions.apply(request, response, exchange.credential)
            if response.status == 304:
                self._give_back(exchange)
            exchange.response = conditions.encode(self.faults.apply(request, response))
            exchange.response.headers = self._told(exchange) | exchange.response.headers
            self._examine(exchange)
        return exchange

    def end(self, exchange: Exchange) -> None:
        """The first byte is about to leave."""
        now, request, verdict = time.time(), exchange.request, exchange.verdict
        name = exchange.credential.name if exchange.credential else None
        with self.world.lock:
            if name is not None:
                self.limits.leave(name)
            if verdict.refused_by and verdict.refused_by.told_at is None:
                verdict.refused_by.told_at = now
        self.log.add(
            Entry(
                arrived_at=request.now.timestamp(),
                left_at=now,
                method=request.method,
                path=request.target,
                credential=name,
                bucket=exchange.bucket,
                endpoint=exchange.endpoint,
                status=exchange.response.status,
                in_flight=verdict.in_flight,
                cost=exchange.cost,
                is_refused=verdict.refused_by is not None,
                body=request.document,
            )
        )

    def _arrive(self, request: Request) -> Exchange:
        endpoint = endpoint_of(request)
        bucket = GRAPHQL if endpoint == GRAPHQL else AUTH if endpoint.endswith("access_tokens") else CORE
        credential = None if bucket == AUTH else self.credentials.of(request)
        cost = self._graphql.cost(request.document).points if bucket == GRAPHQL else 1
        exchange = Exchange(request, credential, bucket, endpoint, cost, Verdict())
        if credential is not None:
            exchange.verdict = self.limits.arrive(
                credential.name,
                bucket,
                endpoint,
                cost=cost,
                points=1 if bucket == GRAPHQL or request.method in {"GET", "HEAD", "OPTIONS"} else 5,
                now=request.now.timestamp(),
            )
        return exchange

    def _refusal(self, exchange: Exchange) -> Response | None:
        if "user-agent" not in exchange.request.headers:
            return answers.no_user_agent()
        if exchange.credential is None:
            return None if exchange.bucket == AUTH else answers.bad_credentials()
        if exchange.verdict.refused_by is None:
            return None
        exchange.cost = 0
        rules = self.limits.rules
        if exchange.verdict.is_secondary:
            after = {} if rules.retry_after is None else {"retry_after": str(rules.retry_after)}
            return answers.refusal(rules.refusal_status, faults.SECONDARY, **after)
        if exchange.bucket == GRAPHQL:
            refused = {"type": "RATE_LIMITED", "message": f"API rate limit exceeded for user ID {self.viewer.id}."}
            return Response(200, {"errors": [refused]})
        return answers.refusal(rules.refusal_status, f"API rate limit exceeded for user ID {self.viewer.id}.")

    def forget(self) -> None:
        """The world has changed: answers that were remembered hold no more."""
        if self._memory is not None:
            self._memory.forget()

    def _remembered(self, exchange: Exchange) -> Response:
        """The answer, from memory where there is one. With hooks, which may change the world, nothing is remembered."""
        if self._memory is None or self.hooks or exchange.bucket == AUTH:
            return self._answer(exchange)
        response = self._memory.recall(exchange.request)
        if response is None:
            response = conditions.encode(self._answer(exchange))
            self._memory.keep(exchange.request, response)
        return response

    def _answer(self, exchange: Exchange) -> Response:
        request = exchange.request
        for hook in tuple(self.hooks):
            hook(request)
        if exchange.bucket == AUTH:
            return self.credentials.exchange(request)
        if request.path == "/rate_limit":
            return self._rates(exchange)
        if exchange.bucket == GRAPHQL and request.method == "POST":
            call = Call(self.world, self.viewer, lambda: self._rate(exchange), self._history)
            return Response(200, self._graphql.answer(request.document, call), template="/graphql")
        return self._rest.answer(request, self.viewer)

    def _rates(self, exchange: Exchange) -> Response:
        """`GET /rate_limit`, which costs nothing; not found where there is no quota."""
        self._give_back(exchange)
        core, graphql = self._state(exchange, CORE), self._state(exchange, GRAPHQL)
        if core is None or graphql is None:
            return answers.not_found()
        return Response(200, quota.overview(core, graphql), template="/rate_limit")

    def _rate(self, exchange: Exchange) -> dict[str, Any] | None:
        """The field `rateLimit`; None where there is no quota."""
        found = self._state(exchange, GRAPHQL)
        return None if found is None else quota.field(found, self._graphql.cost(exchange.request.document))

    def _told(self, exchange: Exchange) -> dict[str, str]:
        """The headers that tell of the credential: its scopes, where it is a person's, and its quota, where it has one."""
        if exchange.credential is None:
            return {}
        scopes = {} if exchange.credential.expires_at else SCOPES
        found = self._state(exchange, exchange.bucket)
        return scopes if found is None else scopes | quota.headers(found, exchange.bucket)

    def _state(self, exchange: Exchange, bucket: str) -> Quota | None:
        assert exchange.credential is not None
        return self.limits.state(exchange.credential.name, bucket, exchange.request.now.timestamp())

    def _give_back(self, exchange: Exchange) -> None:
        assert exchange.credential is not None
        self.limits.give_back(exchange.credential.name, exchange.bucket, exchange.cost)
        exchange.cost = 0

    def _examine(self, exchange: Exchange) -> None:
        if self._check is None:
            return
        try:
            self._check(exchange.request, exchange.response)
        except AssertionError as breach:
            self.breaches.append(breach)


def _history(repository: Repository, head: str) -> list[Commit]:
    return ancestry(repository.commits, head)
