"""The folder of a fit: its plan, what was decided on the way, the model and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.data import Data
from archgrad.distributed.processes import from_first, processes
from archgrad.errors import UserError
from archgrad.files import exists, list_folder, read_text, write_text
from archgrad.workflows.fit_plan import FitPlan

if TYPE_CHECKING:
    from archgrad.workflows.fit import FitResult

__all__ = ["FIT", "FitFolder", "read_request"]

FIT, REPORT = "fit.json", "report.html"
_FORMAT = "archgrad.fit/1"
_MOST = 1 << 24


class FitFolder:
    """Keeps the plan and the decisions, so that a killed fit continues as it began. Without a path it keeps nothing."""

    def __init__(self, path: Path | None, resume: bool) -> None:
        self.path, self.resume = path, resume
        self.seconds: dict[str, float] = {}
        self._content: dict[str, Any] = {}
        if resume:
            if path is None:
                raise UserError("resume=True needs out=FOLDER, the folder of the fit to continue.")
            self._content = from_first(lambda: _read(path / FIT))

    @property
    def plan(self) -> FitPlan | None:
        """The plan of the fit to continue; None for a new one."""
        return FitPlan(**self._content["plan"]) if "plan" in self._content else None

    def begin(self, plan: FitPlan, data: Data, request: dict[str, Any] | None = None) -> None:
        """Write the plan of a new fit; reject a folder that holds anything else, and other images."""
        digest = data.digest()
        if self._content:
            if self._content["data"] != digest:
                raise UserError(f"{self.path} was begun with other images; give those, or choose another folder.")
            return
        self._content = {"format": _FORMAT, "plan": plan.to_dict(), "data": digest, "decisions": {}, "request": request}
        if self.path is not None and exists(self.path) and any(list_folder(self.path)):
            raise UserError(f"{self.path} is not empty; choose a new folder, or continue with `archgrad resume`.")
        self._save()

    def part(self, name: str) -> tuple[Path | None, bool]:
        """Return the folder of a part, and whether it was begun before."""
        if self.path is None:
            return None, False
        home = self.path / name
        return home, self.resume and from_first(lambda: exists(home / "config.toml"))

    def decided(self, name: str) -> int | None:
        """Return a decision of this fit, None if it is still open."""
        found = self._content["decisions"].get(name)
        return found if type(found) is int and found > 0 else None

    def decide(self, name: str, value: int) -> None:
        """Keep a decision."""
        self._content["decisions"][name] = value
        self._save()

    def spend(self, part: str, seconds: float) -> None:
        """Count the time of a part."""
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds

    def write(self, result: FitResult) -> None:
        """Write the model, the report and the result."""
        if self.path is None or processes().rank:
            return
        from archgrad.workflows.fit_report import report_page

        result.model.save(self.path / "model")
        write_text(self.path / REPORT, report_page(result))
        self._content["result"] = result.to_dict()
        self._save()

    def _save(self) -> None:
        if self.path is None or processes().rank:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            write_text(self.path / FIT, json.dumps(self._content, indent=2, ensure_ascii=False) + "\n")
        except OSError as error:
            raise UserError(f"{self.path} cannot be written ({error.strerror or error}); choose another.") from error


def read_request(folder: Path) -> dict[str, Any]:
    """Return the request that a fit was begun with."""
    found = _read(folder / FIT).get("request")
    if not isinstance(found, dict):
        raise UserError(f"the fit in {folder} was begun in Python; continue it there: ag.fit(…, resume=True).")
    return found


def _read(path: Path) -> dict[str, Any]:
    if not exists(path):
        raise UserError(f"{path.parent} holds no fit: it has no {FIT}; start one with `archgrad fit`.")
    try:
        content = json.loads(read_text(path, "plan of a fit", _MOST))
        plan, data, decisions = content["plan"], content["data"], content["decisions"]
        right = content["format"] == _FORMAT and isinstance(data, str) and isinstance(decisions, dict)
        FitPlan(**plan)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(f"{path} is no plan of a fit; start a new one in another folder.") from error
    if not right:
        raise UserError(f"{path} is no plan of a fit in the format {_FORMAT!r}; start a new one in another folder.")
    return dict(content)
