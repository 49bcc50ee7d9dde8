"""Pages that follow runs while they go on: a read-only server on this machine.

Only 127.0.0.1 is served, under an address with a random token. Addresses name runs by keys, not by paths, so that none
leads out of the folder. The Host header is checked, so that no other site reads a page through a name of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from archgrad.errors import ArchgradError
from archgrad.pages.report import page_of, page_of_list
from archgrad.pages.studies import page_of_study
from archgrad.report.page import Page, to_html
from archgrad.report.page.records import RunRecords, find_runs, read_run

__all__ = ["Watched", "watch_app"]

HOST = "127.0.0.1"
_FILES = ("metrics.jsonl", "config.toml", "summary.json", "result.json", "selection.json", "fit.json")
Stamp = tuple[tuple[int, int] | None, ...]


@dataclass
class Watched:
    """A folder of runs, and what was last read of each."""

    folder: Path
    known: dict[Path, tuple[Stamp, RunRecords]] = field(default_factory=dict)

    def runs(self) -> list[Path]:
        """Return the run directories of now."""
        return find_runs(self.folder)

    def stamps(self) -> dict[Path, Stamp]:
        """Return sizes and times of the files of all runs: they change when a run does."""
        return {run: _stamps(run) for run in self.runs()}

    def page(self, base: str, key: str | None) -> Page:
        """Return the page of the run with this key, or the list of all."""
        runs = self.runs()
        if runs == [self.folder] and (self.folder / "study.toml").is_file():
            inside = [path.parent for path in sorted(self.folder.rglob("metrics.jsonl"))]
            links = {run: f"{base}run/{self.key(run)}" for run in inside}
            return self._one(inside, key) if key else _live(page_of_study(self.folder, links))
        if key is not None:
            return self._one(runs, key)
        if runs == [self.folder]:
            return _live(page_of(self.folder))
        links = {run: f"{base}run/{self.key(run)}" for run in runs}
        return _live(page_of_list(self.folder, [self._read(run) for run in runs], links))

    def _one(self, runs: list[Path], key: str) -> Page:
        run = next((run for run in runs if self.key(run) == key), None)
        return _GONE if run is None else _live(page_of(run))

    def key(self, run: Path) -> str:
        """Return the name of a run in addresses, from which no path can be made."""
        return hashlib.sha256(os.fsencode(run.relative_to(self.folder))).hexdigest()[:16]

    def _read(self, run: Path) -> RunRecords:
        stamp = _stamps(run)
        if run not in self.known or self.known[run][0] != stamp:
            self.known[run] = stamp, read_run(run)
        return self.known[run][1]


_GONE = Page("no such run", "There is no such run; it may have been moved or removed.")


def _live(page: Page) -> Page:
    return replace(page, live="This page follows the run.")


def _stamps(run: Path) -> Stamp:
    """Return those of its own files, and of the runs inside of a training, a fit or a study."""
    own = tuple(_stamp(run / name) for name in _FILES)
    if own[0] is not None and own[-1] is None:  # a search, or one training
        return own
    return own + tuple(_stamp(path) for path in sorted(run.rglob("metrics.jsonl")))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def watch_app(folder: Path, token: str | None = None, every: float = 1.0) -> tuple[Starlette, str]:
    """Return the server of a folder and the path of its first page; it looks for news ``every`` so many seconds."""
    watched, base = Watched(folder), f"/{token or secrets.token_urlsafe(24)}/"

    def show(request: Request) -> Response:
        key = request.path_params.get("key")
        page = _page(watched, base, key)
        suffix = "" if key is None else f"/{key}"
        return HTMLResponse(to_html(page, f"{base}events", f"{base}payload{suffix}"), headers=_HEADERS)

    def payload(request: Request) -> Response:
        page = _page(watched, base, request.path_params.get("key"))
        return Response(page.to_json(), media_type="application/json", headers=_HEADERS)

    async def events(request: Request) -> Response:
        return StreamingResponse(_changes(request, watched, every), media_type="text/event-stream", headers=_HEADERS)

    routes = [
        Route(base, show),
        Route(f"{base}run/{{key}}", show),
        Route(f"{base}payload", payload),
        Route(f"{base}payload/{{key}}", payload),
        Route(f"{base}events", events),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"], www_redirect=False)
    return Starlette(routes=routes, middleware=[hosts]), base


_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def _page(watched: Watched, base: str, key: str | None) -> Page:
    try:
        return watched.page(base, key)
    except ArchgradError:  # the run has vanished
        return _GONE


async def _changes(request: Request, watched: Watched, every: float) -> AsyncIterator[str]:
    """Yield an event whenever a file of a run has changed, and a comment in between, which notices a lost page."""
    before = await asyncio.to_thread(watched.stamps)
    while not await request.is_disconnected():
        await asyncio.sleep(every)
        now = await asyncio.to_thread(watched.stamps)
        yield "data: changed\n\n" if now != before else ": nothing new\n\n"
        before = now
