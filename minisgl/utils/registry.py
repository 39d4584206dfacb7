"""A table from names to implementations, filled by decorators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """The implementations of one kind of thing, such as attention backends, by name."""

    def __init__(self, type: str) -> None:
        self._type = type
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Return a decorator that enters what it decorates under name, and leaves it unchanged.

        Raises KeyError at once for a name that is taken.
        """
        if name in self._entries:
            raise KeyError(f"{self._type} {name!r} is registered twice")

        def enter(item: T) -> T:
            self._entries[name] = item
            return item

        return enter

    def __getitem__(self, name: str) -> T:
        """Return what is registered under name; an unknown one is refused by assert_supported."""
        self.assert_supported(name)
        return self._entries[name]

    def supported_names(self) -> list[str]:
        """Return the names, in the order in which they were registered."""
        return list(self._entries)

    def assert_supported(self, names: str | Iterable[str]) -> None:
        """Raise ValueError for a name that is not registered; the message lists those that are."""
        for name in [names] if isinstance(names, str) else names:
            if name not in self._entries:
                choices = ", ".join(self._entries) or "none"
                raise ValueError(f"unknown {self._type} {name!r}; choose one of: {choices}")
