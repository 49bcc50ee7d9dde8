"""The folder of a fit: its plan, what was decided on the way, the model and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archgrad.data import Data
from archgrad.distributed.processes import from_first, processes
from archgrad.errors import UserError, shortened
from archgrad.system.files import exists, list_folder, read_text, write_text
from archgrad.workflows.fit_plan import FitPlan

if TYPE_CHECKING:
    from archgrad.workflows.fit_result import FitResult

__all__ = ["FIT", "FitFolder", "read_request"]

FIT, REPORT = "fit.json", "report.html"
_FORMAT = "archgrad.fit/1"
_MOST = 1 << 24
_MOST_DECIDED = 1_000_000


class FitFolder:
    """Keeps the plan and the decisions, so that a killed fit continues as it began. Without a path it keeps nothing."""

    def __init__(self, path: Path | None, resume: bool) -> None:
        """Read what was begun; reject a new folder that holds anything."""
        self.path, self.resume = path, resume
        self.seconds: dict[str, float] = {}
        self._content: dict[str, Any] = {}
        if resume and path is None:
            raise UserError("resume=True needs out=FOLDER, the folder of the fit to continue.")
        if path is None:
            return
        if resume:
            self._content = from_first(lambda: _read(path / FIT))
        elif from_first(lambda: exists(path) and any(list_folder(path))):
            raise UserError(f"{path} is not empty; choose a new folder, or continue with `archgrad resume`.")

    @property
    def plan(self) -> FitPlan | None:
        """The plan of the fit to continue; None for a new one."""
        return FitPlan(**self._content["plan"]) if "plan" in self._content else None

    def begin(self, plan: FitPlan, images: Data, tests: Data, request: dict[str, Any] | None, planning: float) -> None:
        """Write the plan of a new fit, or reject other images than it was begun with."""
        digests = [images.digest(), tests.digest()]
        if not self._content:
            self._content = {
                "format": _FORMAT, "plan": plan.to_dict(), "data": digests, "decisions": {}, "request": request,
                "planning": planning,
            }  # fmt: skip
            self._save()
        elif self._content["data"] != digests:
            raise UserError(f"{self.path} was begun with other images; give those, or choose another folder.")
        self.spend("planning", self._content["planning"])

    def part(self, name: str) -> tuple[Path | None, bool]:
        """Return the folder of a part, and whether it was begun before."""
        if self.path is None:
            return None, False
        home = self.path / name
        return home, self.resume and from_first(lambda: exists(home / "config.toml"))

    def decided(self, name: str) -> int | None:
        """Return a decision of this fit, None if it is still open."""
        found: int | None = self._content["decisions"].get(name)
        return found

    def decide(self, name: str, value: int) -> int:
        """Keep a decision of the first process, and return it."""
        found = from_first(lambda: value)
        self._content["decisions"][name] = found
        self._save()
        return found

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


def read_request(folder: Path, known: tuple[str, ...]) -> dict[str, Any]:
    """Return the request that a fit was begun with: plain values of the ``known`` names."""
    found = _read(folder / FIT)["request"]
    if found is None:
        raise UserError(f"the fit in {folder} was begun in Python; continue it there: ag.fit(…, resume=True).")
    if not isinstance(found, dict) or not set(found) <= set(known):
        raise UserError(f"request in {folder / FIT} is {shortened(found)}; it may have {', '.join(known)}.")
    if not all(isinstance(one, str | int | float) for one in found.values()):
        raise UserError(f"request in {folder / FIT} is {shortened(found)}; its values must be texts and numbers.")
    return found


def _read(path: Path) -> dict[str, Any]:
    if not exists(path):
        raise UserError(f"{path.parent} holds no fit: it has no {FIT}; start one with `archgrad fit`.")
    try:
        content = json.loads(read_text(path, "plan of a fit", _MOST))
        FitPlan(**content["plan"])
        decided = all(type(one) is int and 0 < one <= _MOST_DECIDED for one in content["decisions"].values())
        timed = isinstance(content["planning"], float) and 0 <= content["planning"] < float("inf")
        right = content["format"] == _FORMAT and isinstance(content["data"], list) and "request" in content
    except UserError as error:
        raise UserError(f"{path} is no plan of a fit ({error}); start a new one in another folder.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is no plan of a fit; start a new one in another folder.") from error
    if not (right and decided and timed):
        raise UserError(f"{path} is no plan of a fit in the format {_FORMAT!r}; start a new one in another folder.")
    return dict(content)
