"""Contracts made from source."""

from __future__ import annotations

from textwrap import dedent

from steplib.stubs import Stub
from steplib.symbols import symbols

SOURCE = dedent('''\
    """What the module is for."""

    from __future__ import annotations

    import torch

    LIMIT = 3  # pages
    TABLE = {"a": 1, "b": 2}
    LONG = [
        1111111111, 2222222222, 3333333333, 4444444444, 5555555555, 6666666666, 7777777777,
        8888888888, 9999999999,
    ]
    _HIDDEN = 1


    class _Base:
        def shared(self) -> int:
            return 1


    class _Other:
        pass


    @dataclass(frozen=True)
    class Pool(_Base):
        """A pool.

        Raises ValueError for no pages.
        """

        pages: int  # how many
        _free: int = 0

        def __init__(
            self, pages: int, size: int = 1  # slots
        ) -> None:
            # a comment before the body
            self.size: int = size
            self.pages, self._free = pages, pages
            if size > 1:
                self.spare = None

        @property
        def used(self) -> int:
            """Pages that are taken."""
            return self.pages - self._free

        def _private(self) -> None:
            pass

        async def wait(self) -> None: ...


    def helper(x: int) -> int: return x


    def _unseen() -> None:
        pass
    ''')

STUB = dedent('''\
    """What the module is for."""

    LIMIT = 3  # pages
    TABLE = {"a": 1, "b": 2}
    LONG = ...


    class _Base:
        def shared(self) -> int:
            ...


    @dataclass(frozen=True)
    class Pool(_Base):
        """A pool.

        Raises ValueError for no pages.
        """

        pages: int  # how many

        def __init__(
            self, pages: int, size: int = 1  # slots
        ) -> None:
            self.size: int = ...
            self.pages = ...
            self.spare = ...

        @property
        def used(self) -> int:
            """Pages that are taken."""
            ...

        async def wait(self) -> None:
            ...


    def helper(x: int) -> int:
        ...''')


def test_all_that_is_public_is_kept_and_no_body() -> None:
    assert Stub(SOURCE).text() == STUB


def test_a_stub_is_python_and_its_own_stub() -> None:
    assert Stub(STUB).text() == STUB


def test_only_what_changed_is_kept_of_a_modified_file() -> None:
    changed = SOURCE.replace("return self.pages - self._free", "return self.pages")
    text = Stub(changed, changed_from=SOURCE).text()
    assert "def used" in text and "class Pool(_Base):" in text
    for other in ("LIMIT", "helper", "wait", "__init__", "_Base:\n"):
        assert other not in text


def test_a_module_that_hands_names_on_is_shown_whole() -> None:
    source = '"""Names."""\n\nfrom .a import A\n\n__all__ = ["A"]\n'
    assert Stub(source).text() == source.rstrip()


def test_symbols_include_decorators_and_the_comment_above() -> None:
    source = "x = 1\n\n# why\n@wraps\ndef f():\n    return 1\n\n\nclass C:\n    def m(self): ...\n"
    found = symbols(source)
    assert set(found) == {"x", "f", "C", "C.m"}
    assert found["f"].source(source.split("\n")) == "# why\n@wraps\ndef f():\n    return 1"


def test_a_private_alias_is_kept_when_a_signature_speaks_of_it() -> None:
    source = "_Row = dict[str, int]\n_Unused = int\n\n\ndef read() -> list[_Row]:\n    return []\n"
    text = Stub(source).text()
    assert "_Row = dict[str, int]" in text and "_Unused" not in text


def test_a_body_on_the_signature_s_last_line() -> None:
    source = """
        @overload
        def pick(a: int) -> int: ...


        @overload
        def pick(
            a: str,
        ) -> str: ...
        """
    text = Stub(dedent(source)).text()
    assert "@overload\ndef pick(a: int) -> int:\n    ..." in text
    assert "@overload\ndef pick(\n    a: str,\n) -> str:\n    ..." in text
