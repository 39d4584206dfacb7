"""Every internal link and anchor of the built pages, without a browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

BASE = "http://handbook/"
LINKS = {"a": "href", "link": "href", "script": "src", "img": "src", "source": "src"}


@dataclass
class Found(HTMLParser):
    """Links and anchors of one page."""

    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        link = values.get(LINKS.get(tag, ""))
        if link is not None and values.get("rel") not in ("canonical",):
            self.links.append(link)
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(str(values[name]))


def read(file: Path) -> Found:
    found = Found()
    found.feed(file.read_text(encoding="utf-8"))
    return found


def test_every_internal_link_and_anchor_resolves(built: Path) -> None:
    pages = {file: read(file) for file in sorted(built.rglob("*.html")) if file.name != "404.html"}
    assert len(pages) > 10
    broken = []
    for file, page in pages.items():
        here = urljoin(BASE, file.relative_to(built).as_posix())
        for link in page.links:
            target = urlsplit(urljoin(here, link))
            if target.netloc != "handbook" or target.scheme not in ("http", "https"):
                continue
            aim = built / unquote(target.path).lstrip("/")
            aim = aim / "index.html" if aim.is_dir() else aim
            anchor = unquote(target.fragment)
            if not aim.is_file():
                broken.append(f"{file.relative_to(built)}: {link} leads nowhere")
            elif anchor and aim in pages and anchor not in pages[aim].anchors | {"__search"}:
                broken.append(f"{file.relative_to(built)}: {link} has no such anchor")
    assert not broken, "\n".join(broken)


def test_no_page_loads_anything_from_another_host(built: Path) -> None:
    for file in built.rglob("*.html"):
        for link in _loaded(file.read_text(encoding="utf-8")):
            assert not link.startswith(("http:", "https:", "//")), f"{file.name} loads {link}"


def _loaded(text: str) -> list[str]:
    class Loads(HTMLParser):
        found: list[str] = []

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            values = dict(attrs)
            if tag in ("script", "img", "iframe", "source", "video"):
                self.found.append(values.get("src") or "")
            if tag == "link" and values.get("rel") not in ("canonical", "edit"):
                self.found.append(values.get("href") or "")

    loads = Loads()
    loads.found = []
    loads.feed(text)
    return loads.found
