"""Serve live pages on this machine until the user stops it."""

from __future__ import annotations

import signal
import socket
import webbrowser
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from archgrad.errors import UserError
from archgrad.system.files import exists

__all__ = ["run_server", "serve"]


def serve(folder: Path, port: int, open_browser: bool, say: Callable[[str], object]) -> None:
    """Serve the pages of a folder; tell the address by ``say``."""
    if not exists(folder) or not folder.is_dir():
        raise UserError(f"there is no folder {str(folder)[:150]}; give a run directory, a study, or a folder of runs.")
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise UserError("live pages need Starlette and uvicorn; install them with `pip install 'archgrad[web]'`.")
    from archgrad.pages.watch import HOST, watch_app

    app, path = watch_app(folder)
    with socket.socket() as listening:
        try:
            listening.bind((HOST, port))
            listening.listen()  # before the address is told: whoever opens it at once waits, and is not refused
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"port {port} cannot be used ({reason}); leave --port out for a free one.") from error
        address = f"http://{HOST}:{listening.getsockname()[1]}{path}"
        say(f"{address}  (Ctrl-C ends it)")
        if open_browser:
            webbrowser.open(address)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            run_server(app, listening)
        except KeyboardInterrupt:  # uvicorn raises the signal again after it has stopped
            pass
        finally:
            signal.signal(signal.SIGTERM, before)
    say("stopped.")


def run_server(app: Any, listening: socket.socket) -> None:
    """Answer on a socket until SIGINT or SIGTERM."""
    import uvicorn

    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run([listening])
