"""Given: what a person types becomes a host, a name or a token, or a message that says what is wrong and repeats no secret."""

import re

from worker_app import errors
from worker_app.secret import Secret

LEAST_SECRET, MOST_SECRET = 8, 1_000  # characters; those of the providers have 20 to about 550
MOST_ACCOUNT = 254  # characters of an e-mail address or the name of a user
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}(?::|$)){_LABEL}(?:\.{_LABEL})*(?::(?P<port>[0-9]{{1,5}}))?")
MOST_PORT = 65_535
_EMAIL = re.compile(r"[^\s@:]+@[^\s@:]+\.[^\s@:]+")
_USER = re.compile(r"[^\s:]+")
_PASTED = re.compile(
    r"""["'`]|\w+=(?=gh[a-z]_|github_pat_|gl[a-z]+-|ATATT|lin_)"""
)  # quotes, or the line of a variable
_PASSING = re.compile(r"gh[sru]_|glrt-|lin_oauth_")  # of an hour, of a refresh, of a person behind an app, of a runner
_FOR_PEOPLE = {
    "api.github.com": "github.com",
    "www.github.com": "github.com",
    "www.gitlab.com": "gitlab.com",
    "api.linear.app": "linear.app",
    "www.linear.app": "linear.app",
}
_ISSUED_BY = {  # how each provider begins its tokens; a GitLab of one's own may begin them otherwise
    "github": re.compile(r"gh[a-z]_|github_pat_"),
    "gitlab": re.compile(r"gl[a-z]+-"),
    "jira": re.compile(r"ATATT"),
    "linear": re.compile(r"lin_(api|oauth)_"),
}


def token_of(text: str, provider: str) -> Secret:
    """A token as a person gave it, without the white space around it.

    Raises UsageError for what no header can hold, is too short or too long, or is a token of another provider.
    """
    token = text.strip()
    _check_length(token, "token")
    if not token.isascii() or not token.isprintable() or " " in token or _PASTED.match(token):
        raise errors.UsageError(
            "the token holds a space, a quote, a line break or something else that no token has; copy it again, alone"
        )
    issuers = [name for name, begins in _ISSUED_BY.items() if begins.match(token)]
    if issuers and provider not in issuers:
        raise errors.UsageError(
            f"the token begins as those of {issuers[0]} do, and --provider is {provider}: give one of {provider}, or write "
            f"--provider {issuers[0]}; it was sent nowhere"
        )
    if _PASSING.match(token):
        raise errors.UsageError(
            "the token is one that ends by itself or reads nothing: make a personal access token, or a personal API key in Linear"
        )
    return Secret(token)


def password_of(text: str) -> Secret:
    """A password, or a token in its place, that git signs in with over HTTPS. Raises UsageError."""
    password = text.strip("\r\n")
    _check_length(password, "password")
    if not password.isprintable() or password != password.strip():
        raise errors.UsageError(
            "the password holds a line break or another control character, or white space around it; copy it again, alone"
        )
    return Secret(password)


def email_of(text: str) -> str:
    """The address that an account signs in with. Raises UsageError."""
    if not _EMAIL.fullmatch(text) or not _is_account(text):
        raise errors.UsageError(
            f"--email is {text[:MOST_ACCOUNT]!r}: write it as in ada@example.org, nothing around it"
        )
    return text


def user_of(text: str) -> str:
    """The name that git signs in with. Raises UsageError for one with a colon, which ends a name in HTTP, or a space."""
    if not _USER.fullmatch(text) or not _is_account(text):
        raise errors.UsageError(
            f"--user is {text[:MOST_ACCOUNT]!r}: give 1 to {MOST_ACCOUNT} letters without spaces and colons"
        )
    return text


def host_of(text: str) -> str:
    """A host as a person sees it, in lower case. Raises UsageError for an address in its place."""
    host = text.strip().lower().removesuffix(":443")
    found = _HOST.fullmatch(host)
    if not found or not 0 < int(found["port"] or 1) <= MOST_PORT:
        shown = re.sub(r"^.*@", "***@", text)[:100]
        raise errors.UsageError(
            f"host is {shown!r}: write it as in github.com, without scheme, path, user and final dot"
        )
    if host in _FOR_PEOPLE:
        raise errors.UsageError(f"host is {text!r}: write the one that people see, {_FOR_PEOPLE[host]}")
    return host


def _check_length(secret: str, called: str) -> None:
    if not secret:
        raise errors.UsageError("the secret is empty; give it on standard input, by --file or by --env")
    if not LEAST_SECRET <= len(secret) <= MOST_SECRET:
        raise errors.UsageError(
            f"the {called} has {len(secret)} characters, and none has less than {LEAST_SECRET} or more than {MOST_SECRET}; "
            "copy it again, whole and alone"
        )


def _is_account(text: str) -> bool:
    return text.isascii() and text.isprintable() and len(text) <= MOST_ACCOUNT
