"""Checks the built site: ``python docs/_site/check_site.py site``.

Every link leads to a page and a heading of the site, no page loads anything from outside, and every public name of the
package has an entry in the reference. It prints what is wrong, and exits with 1.
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from api_pages import public_names, rooms

LOADED = {"script", "img", "iframe", "source", "video", "audio", "object", "embed"}
"""Elements whose address is requested without a click; of ``link``, all but the canonical address."""


OUTSIDE = re.compile(r"""(url\(|@import)\s*["']?(https?:)?//""")


class Html(HTMLParser):
    """Collects the anchors of a page, and its links with whether they are loaded at once."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, bool]] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the anchor and the link of an element."""
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        for name in ("href", "src"):
            if name in found:
                self.links.append((found[name], tag in LOADED or (tag == "link" and found.get("rel") != "canonical")))


def problems(site: Path) -> list[str]:
    """Return what is wrong with a site, as lines."""
    pages = {page: Html(page) for page in sorted(site.rglob("*.html"))}
    wrong = [f"{page.relative_to(site)}: {text}" for page in pages for text in _of_page(page, pages, site)]
    anchors = {anchor for page in pages.values() for anchor in page.anchors}
    names = [name for room in rooms() for name in public_names(room)]
    wrong += [f"the reference lacks {name}" for name in names if name not in anchors]
    wrong += [f"{one.name} loads from outside" for one in site.rglob("*.css") if OUTSIDE.search(one.read_text())]
    sys.stdout.write(f"{len(pages)} pages, {sum(len(one.links) for one in pages.values())} links, {len(names)} names\n")
    return wrong


def _of_page(page: Path, pages: dict[Path, Html], site: Path) -> list[str]:
    wrong = []
    for link, loaded in pages[page].links:
        parts = urlsplit(link)
        if parts.scheme in ("http", "https") or parts.netloc:
            wrong += [f"loads {link}"] * loaded
        elif not parts.scheme:
            start = site if parts.path.startswith("/") else page.parent
            target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.is_file():
                wrong.append(f"{link} leads nowhere")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                wrong.append(f"{link} has no such heading")
    return wrong


if __name__ == "__main__":
    found = problems(Path(sys.argv[1]).resolve())
    sys.exit("\n".join(found) or 0)
