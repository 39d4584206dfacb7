"""One task, a pool of pages with a queue before it: a starter, and three people's solutions."""

STARTER = '''
"""A pool of pages, and who waits for one."""

from __future__ import annotations

from collections import OrderedDict, deque


class Pool:
    """Hands out pages by number. total: how many there are."""

    def __init__(self, total: int, size: int) -> None:
        """It is empty at first."""
        raise NotImplementedError("chapter 08, pool.py: write Pool.__init__")

    def take(self, owner: str, tokens: int) -> list[int] | None:
        """Pages for so many tokens, or None where there are too few."""
        raise NotImplementedError("chapter 08, pool.py: write Pool.take")

    def give_back(self, owner: str) -> None:
        """All pages of an owner are free again; an unknown owner is an error."""
        raise NotImplementedError("chapter 08, pool.py: write Pool.give_back")


def admit(pool: Pool, waiting: deque[tuple[str, int]]) -> list[str]:
    """Take from the front of the queue as long as pages last."""
    raise NotImplementedError("chapter 08, pool.py: write admit")
'''

_HEAD, _, _ = STARTER.partition("    def __init__")

ADA = (
    _HEAD
    + '''    def __init__(self, total: int, size: int) -> None:
        """It is empty at first."""
        if total <= 0 or size <= 0:
            raise ValueError("a pool needs pages of at least one token")
        self.size = size
        self.free = list(range(total))
        self.held: dict[str, list[int]] = {}

    def take(self, owner: str, tokens: int) -> list[int] | None:
        """Pages for so many tokens, or None where there are too few."""
        mine = self.held.setdefault(owner, [])
        missing = -(-tokens // self.size) - len(mine)
        if missing > len(self.free):
            if not mine:
                del self.held[owner]
            return None
        for _ in range(missing):
            mine.append(self.free.pop())
        return list(mine)

    def give_back(self, owner: str) -> None:
        """All pages of an owner are free again; an unknown owner is an error."""
        if owner not in self.held:
            raise KeyError(f"{owner} holds nothing")
        pages = self.held.pop(owner)
        self.free.extend(reversed(pages))
        assert len(set(self.free)) == len(self.free), "a page was given back twice"


def admit(pool: Pool, waiting: deque[tuple[str, int]]) -> list[str]:
    """Take from the front of the queue as long as pages last."""
    admitted = []
    while waiting:
        name, tokens = waiting[0]
        if pool.take(name, tokens) is None:
            break
        admitted.append(name)
        waiting.popleft()
    return admitted
'''
)

BOB = (
    _HEAD
    + '''    def __init__(self, total: int, size: int) -> None:
        """It is empty at first."""
        self._page_size = size
        self._owner_of: list[str | None] = [None] * total

    def _pages_of(self, owner: str) -> list[int]:
        return [n for n, who in enumerate(self._owner_of) if who == owner]

    def take(self, owner: str, tokens: int) -> list[int] | None:
        """Pages for so many tokens, or None where there are too few."""
        needed = (tokens + self._page_size - 1) // self._page_size
        pages = self._pages_of(owner)
        candidates = (n for n, who in enumerate(self._owner_of) if who is None)
        while len(pages) < needed:
            page = next(candidates, None)
            if page is None:
                return None
            pages.append(page)
        for page in pages:
            self._owner_of[page] = owner
        return sorted(pages)

    def give_back(self, owner: str) -> None:
        """All pages of an owner are free again; an unknown owner is an error."""
        pages = self._pages_of(owner)
        if not pages:
            raise KeyError(owner)
        for page in pages:
            self._owner_of[page] = None


def admit(pool: Pool, waiting: deque[tuple[str, int]]) -> list[str]:
    """Take from the front of the queue as long as pages last."""
    names: list[str] = []
    for name, tokens in list(waiting):
        got = pool.take(name, tokens)
        if got is None:
            return names
        names.append(name)
        waiting.popleft()
    return names
'''
)

CY = (
    _HEAD
    + '''    def __init__(self, total: int, size: int) -> None:
        """It is empty at first."""
        self.total, self.size = total, size
        self.unused = deque(range(total))
        self.table: OrderedDict[str, tuple[int, ...]] = OrderedDict()

    def take(self, owner: str, tokens: int) -> list[int] | None:
        """Pages for so many tokens, or None where there are too few."""
        have = self.table.get(owner, ())
        want, rest = divmod(tokens, self.size)
        want += 1 if rest else 0
        if want - len(have) > len(self.unused):
            return None
        more = [self.unused.popleft() for _ in range(want - len(have))]
        self.table[owner] = (*have, *more)
        self.table.move_to_end(owner)
        return [*self.table[owner]]

    def give_back(self, owner: str) -> None:
        """All pages of an owner are free again; an unknown owner is an error."""
        try:
            pages = self.table.pop(owner)
        except KeyError:
            raise KeyError(f"no pages are held by {owner!r}") from None
        self.unused += pages
        if len(self.unused) > self.total:
            raise AssertionError("there are more free pages than pages")


def admit(pool: Pool, waiting: deque[tuple[str, int]]) -> list[str]:
    """Take from the front of the queue as long as pages last."""
    taken = []
    while waiting and pool.take(*waiting[0]) is not None:
        name, _ = waiting.popleft()
        taken.append(name)
    return taken
'''
)
