"""What the browser tests share: the built site, a server for it, and a headless Chromium.

Where Chromium or a package of the `site` extra is missing these tests are skipped, and say so; with
REQUIRE_BROWSER=1, as in CI, that is a failure.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def _missing(what: str) -> NoReturn:
    if os.environ.get("REQUIRE_BROWSER"):
        pytest.fail(f"{what}, and REQUIRE_BROWSER is set", pytrace=False)
    pytest.skip(f"NOT TESTED IN A BROWSER: {what}")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, strictly built."""
    for package in ("mkdocs", "material"):
        if importlib.util.find_spec(package) is None:
            _missing(f'{package} is missing (pip install -e ".[site]")')
    from steplib import site

    into = tmp_path_factory.mktemp("built") / "site"
    site.build(ROOT, into, commit="0123456789ab")
    return into


@pytest.fixture(scope="session")
def address(built: Path) -> Iterator[str]:
    """Where the built site is served, ending in a slash."""
    handler = functools.partial(_Quiet, directory=str(built))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    if importlib.util.find_spec("playwright") is None:
        _missing('playwright is missing (pip install -e ".[site]")')
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        _missing("Chromium is missing (Debian: apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        yield chromium
        chromium.close()
