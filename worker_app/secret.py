"""A secret text, in a wrapper that no printing, logging, pickling or encoding opens, and the sanitiser of what is shown.

Only the code that signs a request, the vault and the sanitiser call `reveal`; a test looks for any other call. Each `Secret`
is known to the sanitiser for as long as it lives, so that nobody has to say which texts must not be shown.
"""

import base64
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Never, Self, SupportsIndex
from urllib.parse import quote, quote_plus
from weakref import WeakValueDictionary

STARS = "***"
LIMIT = 2000  # characters of a sanitised text
LEAST_LENGTH = 8  # a shorter value is not looked for: it would be found in ordinary words
LEAST_LINE = 24  # of a secret of many lines: a line that is looked for alone
LEAST_BASE64 = 10  # characters of base64 that say enough to be looked for
DEEPEST = 12  # levels of a tree that are walked; below, its text is

# A token begins where a word does, also after an escaped or a percent-encoded character.
_START = r"(?:(?<![A-Za-z0-9])|(?<=%[0-9A-Fa-f]{2})|(?<=\\[bfnrtv])|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2}))"
# How providers begin their tokens, and three parts of which the first is JSON in base64.
_TOKEN = (
    _START + r"(?:gh[a-z]_[\w-]{16,}(?:\.[\w-]+)*|github_pat_\w{16,}"
    r"|gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-[\w-]{16,}(?:\.[\w-]+)*"
    r"|lin_(?:api|oauth)_\w{16,}|ATATT[\w=-]{16,}|eyJ[\w-]{8,}(?:\.[\w-]*){2,4})"
)
_PEM = r"-----BEGIN (?:(?!-----END )[\s\S])*(?:-----END [^-]*-----)?"
_NAME = "(?:proxy[-_])?authorization|private[-_]token|job[-_]token|(?:set[-_])?cookie|x[-_]api[-_]key"
# A header's value: quoted as in JSON and in Python's repr, or after a colon to the end of the line, or after `=` to a blank.
_HEADER = (
    rf"(?i){_START}(?P<name>{_NAME})"
    r"""(?:(?P<to>\\*["']?\s*[:=,]\s*[bru]?)(?P<quote>\\*["'])(?:(?!(?P=quote))(?:\\.|[^\\])){0,8192}?(?P=quote)"""
    r"""|(?P<colon>\\*["']?\s*:\s*)(?:(?!\\[rn])[^\r\n])+|(?P<equal>=)(?:(?:bearer|basic|token)\s+)?[^\s&,;"')}\]]+)"""
)
_HEADER_NAME = re.compile(_NAME, re.IGNORECASE)
_SHAPES = re.compile(f"{_TOKEN}|-----BEGIN")


@dataclass(frozen=True, slots=True)
class _Rule:
    """One kind of secret text: what has to be in the text, in small letters, before the pattern is tried, and what it becomes."""

    marks: tuple[str, ...]
    pattern: re.Pattern[str]
    becomes: str | Callable[[re.Match[str]], str]

    def apply(self, text: str, small: str) -> str:
        if any(mark in small for mark in self.marks):
            return self.pattern.sub(self.becomes, text)
        return text


def _without_value(found: re.Match[str]) -> str:
    quote = found["quote"] or ""
    return f"{found['name']}{found['to'] or found['colon'] or found['equal']}{quote}{STARS}{quote}"


_RULES = (
    _Rule(("authorization", "token", "cookie", "x-api-key", "x_api_key"), re.compile(_HEADER), _without_value),
    _Rule(("gh", "github_pat_", "gl", "lin_", "atatt", "eyj"), re.compile(_TOKEN), STARS),
    # A scheme and a word is ordinary English; a scheme and what no word looks like is not.
    _Rule(
        ("bearer", "basic"),
        re.compile(
            r"\b((?i:bearer|basic)(?:\s+|%20))(?=[\w+/=.~-]{20}|[\w+/=.~-]*[0-9+/=_~]|[\w.~-]*[a-z][A-Z])[\w+/=.~-]{8,}"
        ),
        r"\1***",
    ),
    _Rule(("://",), re.compile(r"://(?!git@|USER:PASSWORD@)[^/\s\"'<>]*@"), "://***@"),
)
_KEYS = _Rule(("-----begin ",), re.compile(_PEM), STARS)


def looks_like_secret(text: str) -> bool:
    """Whether a text that is to be stored, shown or sent in clear holds what looks like a token or a private key."""
    return _SHAPES.search(text) is not None


class Secret:
    """One secret text. It can be revealed, and nothing else: not printed, formatted, pickled, copied to JSON or hashed."""

    __slots__ = ("__weakref__", "_forms", "_value")
    _value: str
    _forms: "_Forms | None"

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "_value", value)
        object.__setattr__(self, "_forms", None)
        _living[id(self)] = self

    def reveal(self) -> str:
        """The text itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    __hash__ = None  # type: ignore[assignment]  # a hash would let it be a key, and keys get printed and compared

    def __reduce_ex__(self, protocol: SupportsIndex) -> Never:
        raise TypeError("a Secret cannot be pickled")

    def __getstate__(self) -> Never:
        raise TypeError("a Secret gives its state to nobody")

    def __setattr__(self, name: str, value: Any) -> Never:
        raise AttributeError("a Secret is frozen")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


# By id, since a Secret has no hash. A Secret leaves when it dies, before its id can be another's.
_living: WeakValueDictionary[int, Secret] = WeakValueDictionary()


def redacted(text: str) -> str:
    """The text without secrets: the values of this process's living Secrets in every form in which they travel, the values of
    headers that carry one, what looks like a token, user names in addresses, private keys. Other texts stay as they are.
    """
    text = _without_living(_KEYS.apply(text, text.lower()))  # a first line that is another secret too would hide a key
    small = text.lower()
    for rule in _RULES:
        text = rule.apply(text, small)
    return text


def sanitized(text: str, limit: int = LIMIT) -> str:
    """The first `limit` characters of the redacted text; in this order, or half a token at the end would be missed."""
    return redacted(text)[:limit]


def redacted_tree(value: object, depth: int = 0) -> object:
    """The same mappings, lists and texts, redacted; another object is itself, or its redacted text where that holds a secret.

    What stands beside the name of a header that carries a secret, in a mapping or a pair, is one.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return redacted(value)
    if depth < DEEPEST and isinstance(value, Mapping):
        return {redacted_tree(name, depth + 1): _item(name, item, depth + 1) for name, item in value.items()}
    if depth < DEEPEST and isinstance(value, list | tuple):
        items = [redacted_tree(item, depth + 1) for item in value]
        if len(items) == 2:
            items[1] = _item(value[0], value[1], depth + 1)
        return items if isinstance(value, list) else tuple(items)
    shown = (repr(value), str(value))
    clean = tuple(map(redacted, shown))
    return value if clean == shown else clean[0]


def _item(name: object, item: object, depth: int) -> object:
    return STARS if item and _names_secret(name) else redacted_tree(item, depth)


def _names_secret(name: object) -> bool:
    text = name.decode(errors="replace") if isinstance(name, bytes) else name
    return isinstance(text, str) and _HEADER_NAME.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class _Forms:
    """The texts as which a secret may be met, the longest first, and what is in any base64 that it is part of."""

    least: int  # characters of the shortest
    plain: tuple[str, ...]
    base64: tuple[str, ...]

    def __repr__(self) -> str:
        return "_Forms(***)"


_NOTHING = _Forms(least=1 << 62, plain=(), base64=())
_BASE64_AROUND = r"[A-Za-z0-9+/_=-]*"


def _without_living(text: str) -> str:
    every = [_forms_of(item) for ref in _living.valuerefs() if (item := ref()) is not None]
    found = {form for forms in every if forms.least <= len(text) for form in forms.plain if form in text}
    for form in sorted(found, key=len, reverse=True):
        text = text.replace(form, STARS)
    cores = {core for forms in every if forms.least <= len(text) for core in forms.base64 if core in text}
    for core in cores:
        text = re.sub(f"{_BASE64_AROUND}{re.escape(core)}{_BASE64_AROUND}", STARS, text)
    return text


def _forms_of(item: Secret) -> _Forms:
    if item._forms is None:
        object.__setattr__(item, "_forms", _forms(item.reveal().strip()))
    return item._forms or _NOTHING


def _forms(value: str) -> _Forms:
    if len(value) < LEAST_LENGTH:
        return _NOTHING
    texts = {value, *(line.strip() for line in value.splitlines() if len(line) >= LEAST_LINE)}
    plain = {form for text in texts for form in _written(text)}
    in_base64 = _base64_cores(value)
    return _Forms(min(map(len, (*plain, *in_base64))), tuple(sorted(plain, key=len, reverse=True)), in_base64)


def _written(value: str) -> set[str]:
    """The value as it is, in JSON, in Python's repr and in an address."""
    quoted = {quote(value, safe=""), quote(value), quote_plus(value)}
    escaped = {json.dumps(value)[1:-1], repr(value)[1:-1], repr(value.encode())[2:-1]}
    return {value, value.replace("\n", "\r\n"), *quoted, *(text.replace("%", "%25") for text in quoted), *escaped}


def _base64_cores(value: str) -> tuple[str, ...]:
    """What stands in base64 of any text that holds the value, whatever is before and behind it: one form for each of the three
    places in which it may begin. So a user name before the password need not be known.
    """
    cores = set()
    for before in range(3):
        content = b"\0" * before + value.encode()
        whole = content[: len(content) // 3 * 3]
        core = base64.b64encode(whole).decode()[(0, 2, 3)[before] :]
        cores |= {core, core.replace("+", "-").replace("/", "_")}
    return tuple(core for core in cores if len(core) >= LEAST_BASE64)
