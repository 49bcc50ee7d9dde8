"""Adds the pages that are no files in ``docs/`` to the site: a hook of MkDocs, named in ``mkdocs.yml``.

These are the README and its neighbours, a page per method, a page per room of the package, and the tutorial as a
notebook. They are made while the site is built; none of them is committed.
"""

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))  # MkDocs loads a hook by its path

import api_pages  # noqa: E402
import method_pages  # noqa: E402
from notebook import notebook  # noqa: E402

OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "studies/README.md": "studies.md",
}
"""Pages that stand outside of docs/, and where they stand in the site."""
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[#)])")
NOTEBOOK = "tutorial.ipynb"


def on_config(config: MkDocsConfig) -> None:
    """Put the pages that are generated or dated in the place of ``FOLDER/*`` in the navigation."""
    pages = [*made_pages(), *(one.relative_to(ROOT / "docs").as_posix() for one in ROOT.glob("docs/results/2*.md"))]
    for section in config.nav or ():
        for title, entries in section.items():
            if isinstance(entries, list):
                section[title] = [page for entry in entries for page in expanded(entry, pages)]


def expanded(entry: str, pages: list[str]) -> list[str]:
    """Return the pages of a folder for ``FOLDER/*``, and any other entry as it is; the newest report comes first."""
    folder = entry.removesuffix("*")
    found = [page for page in pages if page.startswith(folder) and not page.endswith("index.md")]
    if folder == entry:
        return [entry]
    return sorted(found, reverse=True) if folder == "results/" else found


def made_pages() -> dict[str, str]:
    """Return the generated pages by their paths in the site."""
    return {**method_pages.pages(ROOT), **api_pages.pages()}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add all pages that are not in ``docs/``, and the notebook."""
    outside = {page: (ROOT / name).read_text(encoding="utf-8") for name, page in OUTSIDE.items()}
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    for page, text in {**outside, **made_pages(), NOTEBOOK: notebook(tutorial)}.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links between files of the repository links of the site, which gets the files that are no pages too."""
    here = page.file.src_uri
    home = next((name for name, site in OUTSIDE.items() if site == here), f"docs/{here}")

    def moved(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(home), link[0]))
        if not (ROOT / target).is_file():
            return link[0]  # a generated page, or a broken link, which MkDocs reports
        inside = target.removeprefix("docs/")
        there = OUTSIDE.get(target) or (inside if inside != target else f"files/{target}")
        if files.get_file_from_path(there) is None:
            files.append(File.generated(config, there, abs_src_path=str(ROOT / target)))
        return posixpath.relpath(there, posixpath.dirname(here) or ".")

    linked = LINK.sub(moved, markdown)
    if here == "tutorial.md":
        title, text = linked.split("\n", 1)
        return f"{title}\n\n[This page as a notebook]({NOTEBOOK}).\n{text}"
    return linked
