"""The GraphQL documents that GitHub is asked, and an estimate of what each costs. Pure.

Every connection says `first`: without it GitHub refuses. Ids are `fullDatabaseId`, since `databaseId` is a 32-bit number.
Pages: https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api (points),
https://docs.github.com/en/graphql/reference/objects
"""

from collections.abc import Iterable
from dataclasses import dataclass

REQUESTS_PER_POINT = 100  # connections that GitHub has to look up for one point of its hourly quota


@dataclass(frozen=True, slots=True)
class Query:
    """A document. Each item of its page, of which `$first` are asked, has `nested` connections of its own."""

    text: str
    nested: int = 0

    def cost(self, first: int) -> float:
        """The points that a page of `first` items will take, at least 1; the reply's headers say what it took."""
        return max(1.0, (1 + first * self.nested) / REQUESTS_PER_POINT)


_PAGE_INFO = "pageInfo { hasNextPage endCursor }"
_ACTOR = "{ __typename login ... on Node { id } }"
_EVENT = f"{{ id createdAt actor {_ACTOR} }}"
_CLOSED = f"{{ id createdAt stateReason actor {_ACTOR} }}"

_PULL_COMMITS = f"totalCount {_PAGE_INFO} nodes {{ commit {{ oid authoredDate }} }}"
_PULL_REVIEWS = f"""totalCount {_PAGE_INFO}
  nodes {{ fullDatabaseId state submittedAt updatedAt commit {{ oid }} author {_ACTOR} }}"""
_PULL_EVENTS = f"""{_PAGE_INFO} nodes {{
  __typename
  ... on ReadyForReviewEvent {_EVENT}
  ... on ConvertToDraftEvent {_EVENT}
  ... on ClosedEvent {_EVENT}
  ... on ReopenedEvent {_EVENT}
  ... on MergedEvent {_EVENT}
  ... on ReviewRequestedEvent {_EVENT}
}}"""
_PULL_EVENT_TYPES = """[
  READY_FOR_REVIEW_EVENT, CONVERT_TO_DRAFT_EVENT, CLOSED_EVENT, REOPENED_EVENT, MERGED_EVENT, REVIEW_REQUESTED_EVENT
]"""
_ISSUE_EVENTS = f"""{_PAGE_INFO} nodes {{
  __typename
  ... on ClosedEvent {_CLOSED}
  ... on ReopenedEvent {_EVENT}
}}"""
_ISSUE_EVENT_TYPES = "[CLOSED_EVENT, REOPENED_EVENT]"

COMMIT_TOTALS = Query("""query CommitTotals($owner: String!, $name: String!, $head: GitObjectID!, $tip: GitObjectID!) {
  repository(owner: $owner, name: $name) {
    head: object(oid: $head) { ... on Commit { history(first: 1) { totalCount } } }
    tip: object(oid: $tip) { ... on Commit { history(first: 1) { totalCount } } }
  }
}""")

HISTORY = Query(
    f"""query History($owner: String!, $name: String!, $head: GitObjectID!, $first: Int!, $after: String) {{
  repository(owner: $owner, name: $name) {{
    object(oid: $head) {{
      ... on Commit {{
        history(first: $first, after: $after) {{
          {_PAGE_INFO}
          nodes {{
            oid authoredDate committedDate additions deletions changedFilesIfAvailable
            author {{ email user {{ id }} }}
            parents(first: 100) {{ totalCount nodes {{ oid }} }}
          }}
        }}
      }}
    }}
  }}
}}""",
    nested=1,
)

PULLS_TOTAL = Query("""query PullsTotal($owner: String!, $name: String!) {
  repository(owner: $owner, name: $name) { pullRequests(first: 1) { totalCount } }
}""")

PULLS = Query(
    f"""query Pulls($owner: String!, $name: String!, $first: Int!, $after: String) {{
  repository(owner: $owner, name: $name) {{
    pullRequests(first: $first, after: $after, orderBy: {{ field: UPDATED_AT, direction: DESC }}) {{
      {_PAGE_INFO}
      edges {{
        cursor
        node {{
          id fullDatabaseId number title body state isDraft createdAt updatedAt mergedAt closedAt additions deletions
          headRefOid headRefName baseRefName mergeCommit {{ oid }} author {_ACTOR}
          commits(first: 100) {{ {_PULL_COMMITS} }}
          reviews(first: 100) {{ {_PULL_REVIEWS} }}
          timelineItems(first: 100, itemTypes: {_PULL_EVENT_TYPES}) {{ {_PULL_EVENTS} }}
        }}
      }}
    }}
  }}
}}""",
    nested=3,
)


def _more(type_name: str, connection: str, fields: str, arguments: str = "") -> Query:
    return Query(f"""query More($id: ID!, $first: Int!, $after: String) {{
  node(id: $id) {{ ... on {type_name} {{ {connection}(first: $first, after: $after{arguments}) {{ {fields} }} }} }}
}}""")


# The rest of a connection of one pull request, by the connection's name.
MORE_OF_PULL = {
    "commits": _more("PullRequest", "commits", _PULL_COMMITS),
    "reviews": _more("PullRequest", "reviews", _PULL_REVIEWS),
    "timelineItems": _more("PullRequest", "timelineItems", _PULL_EVENTS, f", itemTypes: {_PULL_EVENT_TYPES}"),
}

ISSUE_EVENTS = Query(
    f"""query IssueEvents($ids: [ID!]!) {{
  nodes(ids: $ids) {{
    ... on Issue {{ id timelineItems(first: 100, itemTypes: {_ISSUE_EVENT_TYPES}) {{ {_ISSUE_EVENTS} }} }}
  }}
}}""",
    nested=1,
)
MORE_OF_ISSUE = _more("Issue", "timelineItems", _ISSUE_EVENTS, f", itemTypes: {_ISSUE_EVENT_TYPES}")


def pull_ids(numbers: Iterable[int]) -> Query:
    """Asks the ids of the pull requests with these numbers; the one with number 7 is called `p7` in the reply."""
    asked = "\n".join(f"    p{number}: pullRequest(number: {number}) {{ fullDatabaseId }}" for number in numbers)
    return Query(f"""query PullIds($owner: String!, $name: String!) {{
  repository(owner: $owner, name: $name) {{
{asked}
  }}
}}""")
