"""What the fake tells of a quota: in headers, in the field `rateLimit` and at `/rate_limit`."""

from typing import Any

from worker_app.demo.graphql_cost import Cost
from worker_app.demo.limits import CORE, GRAPHQL, Quota
from worker_app.demo.rest_accounts import stamp_of


def headers(found: Quota, bucket: str) -> dict[str, str]:
    """The headers of every answer in that bucket."""
    numbers = {f"x-ratelimit-{name}": str(number) for name, number in found._asdict().items()}
    return numbers | {"x-ratelimit-resource": bucket}


def field(found: Quota, price: Cost) -> dict[str, Any]:
    """The field `rateLimit` of a query at that price."""
    named = found._asdict()
    return named | {"resetAt": stamp_of(named.pop("reset")), "cost": price.points, "nodeCount": price.nodes}


def overview(core: Quota, graphql: Quota) -> dict[str, Any]:
    """The document at `/rate_limit`."""
    resources = {CORE: core._asdict(), "search": core._asdict(), GRAPHQL: graphql._asdict()}
    return {"resources": resources, "rate": core._asdict()}
