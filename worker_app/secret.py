"""A secret text, in a wrapper that no printing, logging, pickling or encoding opens: what holds one may be shown.

Only the code that signs a request, the vault and the sanitiser call `reveal`; a test looks for any other call.
"""

import hmac
import re
from typing import Any, Never, Self, SupportsIndex

# How providers begin their tokens, and what a key file begins with.
_SHAPES = re.compile(
    r"gh[a-z]_\w{16}|github_pat_\w{16}|glpat-[\w-]{16}|lin_(?:api|oauth)_\w{16}|ATATT\w{16}|-----BEGIN"
)


def looks_like_secret(text: str) -> bool:
    """Whether a text that is to be stored, shown or sent in clear holds what looks like a token or a private key."""
    return _SHAPES.search(text) is not None


class Secret:
    """One secret text. It can be revealed, and nothing else: not printed, formatted, pickled, copied to JSON or hashed."""

    __slots__ = ("_value",)
    _value: str

    def __init__(self, value: str) -> None:
        object.__setattr__(self, "_value", value)

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
