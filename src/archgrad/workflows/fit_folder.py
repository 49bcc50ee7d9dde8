"""The folder of a fit: what it was asked for, and what was decided on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from archgrad.distributed.processes import from_first, processes
from archgrad.errors import UserError, shortened
from archgrad.parts.fields import NonNegative, check_value
from archgrad.system.files import exists, write_text
from archgrad.workflows.fit_plan import FitPlan, Images
from archgrad.workflows.folders import IN_PYTHON, check_empty, claim, name_in_file, read_json, to_json
from archgrad.workflows.pacing import Clock
from archgrad.workflows.training import PLAN

__all__ = ["FitFolder"]

FIT = "fit.json"
_CONTENT = ("request", "plan", "images", "spent", "decisions")


class FitFolder:
    """Keeps what was decided by time, so that a killed fit continues as it began. Without a path it keeps nothing.

    ``spent`` is the time that earlier processes have taken, and ``seconds`` that of each part.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self.resume, self.spent = path, False, 0.0
        self.seconds: dict[str, float] = {}
        self._content: dict[str, Any] = {"decisions": {}}

    def check(self) -> None:
        """Reject a new folder that holds anything."""
        if self.path is not None and not self.resume:
            check_empty(self.path, (FIT,))

    @classmethod
    def read(cls, path: Path) -> FitFolder:
        """Read a fit that was begun."""
        if not exists(path / FIT):
            raise UserError(f"the fit in {path} was stopped before it began; start it again with the same command.")
        found = cls(path)
        found.resume, found._content = True, _read(path / FIT)
        found.spent = found._content["spent"]
        return found

    @property
    def plan(self) -> FitPlan | None:
        """The plan of the fit to continue; None for a new one."""
        return FitPlan(**self._content["plan"]) if self.resume else None

    def request(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that the fit was begun with; ``given`` are objects that its file could not name."""
        request = self._content["request"]
        plain = isinstance(request, dict) and all(isinstance(one, str | int | float | dict) for one in request.values())
        if not plain or not {"data", "budget"} <= set(request):
            raise UserError(f"the request in {self.path} is {shortened(request)}; start a new fit in another folder.")
        request = {**request, **given}
        missing = [f"{name}=…" for name, one in request.items() if isinstance(one, str) and one == IN_PYTHON]
        if missing:
            raise UserError(
                f"what was given to the fit in {self.path} cannot be named in a file; give it again in Python: "
                f"archgrad.resume(DIR, {', '.join(missing)})."
            )
        return request

    def begin(self, request: Mapping[str, Any], plan: FitPlan, images: Images) -> None:
        """Write the request of a new fit, or reject other images than it was begun with."""
        digests = [images.every.digest(), images.tests.digest()]
        if self.resume and self._content["images"] != digests:
            raise UserError(f"{self.path} was begun with other images; give those, or choose another folder.")
        if not self.resume:
            self._content |= {"plan": asdict(plan), "images": digests, "spent": 0.0}
            if self.path is not None:
                self._content["request"] = _in_names(request)
                claim(self.path, "fit", {FIT: to_json(self._content)})

    def part(self, name: str, marker: str = PLAN) -> tuple[Path | None, bool]:
        """Return the folder of a part, and whether it was begun before: it has the ``marker``, a file."""
        if self.path is None:
            return None, False
        home = self.path / name
        return home, self.resume and from_first(lambda: exists(home / marker))

    def decide(self, name: str, choose: Callable[[], Any], clock: Clock) -> Any:
        """Return a decision of this fit, as plain data; the first time it is made, and kept."""
        decisions: dict[str, Any] = self._content["decisions"]
        if name not in decisions:
            value = choose()
            decisions[name] = from_first(lambda: value)
            self.save(spent=clock.spent)
        return decisions[name]

    def total(self, clock: Clock) -> float:
        """Return the time that the fit has taken; one that is only read again takes no more."""
        return float(self._content["spent"]) if "result" in self._content else clock.spent

    def spend(self, part: str, seconds: float) -> None:
        """Count the time of a part."""
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds

    def save(self, **content: Any) -> None:
        """Write ``fit.json``, with further content."""
        self._content |= content
        if self.path is not None and processes().rank == 0:
            write_text(self.path / FIT, to_json(self._content))


def _in_names(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values that mean the same in another folder and in another process."""
    plain = {name: one for name, one in request.items() if one is not None}
    plain |= {name: name_in_file(plain[name]) for name in ("data", "test") if name in plain}
    if not isinstance(plain.get("task", ""), str):
        plain["task"] = IN_PYTHON
    return plain | {
        name: str(Path(plain[name]).absolute()) for name in ("data_dir", "target", "start_from") if name in plain
    }


def _read(path: Path) -> dict[str, Any]:
    content = read_json(path, "a fit", _CONTENT)
    try:
        FitPlan(**content["plan"])
        check_value("spent", content["spent"], NonNegative)
        check_value("decisions", content["decisions"], dict[str, Any])
    except (UserError, TypeError) as error:
        raise UserError(f"{path} does not describe a fit ({error}); start a new one in another folder.") from error
    return content
