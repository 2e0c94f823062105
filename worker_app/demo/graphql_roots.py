"""Where GraphQL queries begin: a repository by name, things by node id, an organisation."""

from graphql import GraphQLError

from worker_app.demo.connections import error
from worker_app.demo.graphql_lists import Call
from worker_app.demo.things import Account, Repository

SAML = (
    "Resource protected by organization SAML enforcement. "
    "You must grant your Personal Access token access to this organization."
)


def repository(_: None, call: Call, *, owner: str, name: str, followRenames: bool = True) -> Repository:  # noqa: N803
    """`repository(owner:, name:)`; a former name leads to the same one unless `followRenames` is false."""
    found = call.world.named(f"{owner}/{name}")
    if found is None and followRenames:
        found = call.world.formerly_named(f"{owner}/{name}")
    if found is None:
        raise error("NOT_FOUND", f"Could not resolve to a Repository with the name '{owner}/{name}'.")
    _open(found)
    return found


def node(_: None, call: Call, *, id: str) -> object:  # noqa: A002 - GitHub's name
    """`node(id:)`: whatever has that id."""
    place = call.world.places.get(id)
    if place is None or (place.repository and place.repository.is_deleted):
        raise error("NOT_FOUND", f"Could not resolve to a node with the global id of '{id}'.")
    if place.repository:
        _open(place.repository)
    return place.thing


def nodes(root: None, call: Call, *, ids: list[str]) -> list[object]:
    """`nodes(ids:)`: null and an error in the place of each one that is missing."""
    return [_node_or_error(root, call, one) for one in ids]


def _node_or_error(root: None, call: Call, one: str) -> object:
    try:
        return node(root, call, id=one)
    except GraphQLError as missing:
        return missing  # the executor takes an error as the value of one item


def organization(_: None, call: Call, *, login: str) -> Account:
    """`organization(login:)`."""
    found = call.world.owner(login)
    if found is None or found.kind != "Organization":
        raise error("NOT_FOUND", f"Could not resolve to an Organization with the login of '{login}'.")
    return found


def _open(found: Repository) -> None:
    """GraphQLError where single sign-on stands before it."""
    if found.demands_sso:
        refused = error("FORBIDDEN", SAML)
        refused.extensions = {**(refused.extensions or {}), "saml_failure": True}
        raise refused
