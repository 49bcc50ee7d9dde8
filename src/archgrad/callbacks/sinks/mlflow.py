"""Records for MLflow."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from archgrad.callbacks.search import Record
from archgrad.callbacks.sinks.base import Sink, Writer, import_tool, numbers_of, words_of

__all__ = ["MLflow"]

_TAG = "archgrad.folder"


@dataclass(frozen=True)
class MLflow(Sink):
    """Write a run of MLflow into ``mlflow.db``; look at it with ``mlflow ui --backend-store-uri sqlite:///DIR/mlflow.db``.

    ``uri`` names another store, such as a server. A resumed search replaces its run by one with all epochs.
    """

    kind: ClassVar[str] = "mlflow"

    experiment: str = "archgrad"
    uri: str = ""

    def open(self, folder: Path) -> Writer:
        """Return the writer of a new run; delete the earlier run of this folder."""
        place = folder.resolve()
        client = import_tool("mlflow.tracking", "mlflow").MlflowClient(self.uri or f"sqlite:///{place / 'mlflow.db'}")
        experiment, tag = self._experiment(client, place), hashlib.sha256(str(place).encode()).hexdigest()[:16]
        for earlier in client.search_runs([experiment], f"tags.`{_TAG}` = '{tag}'"):
            client.delete_run(earlier.info.run_id)
        run = client.create_run(experiment, run_name=place.name, tags={_TAG: tag})
        return _Run(client, run.info.run_id)

    def _experiment(self, client: Any, place: Path) -> str:
        found = client.get_experiment_by_name(self.experiment)
        if found is not None:
            return str(found.experiment_id)
        artifacts = None if self.uri else f"file:{place / 'mlartifacts'}"
        return str(client.create_experiment(self.experiment, artifact_location=artifacts))


@dataclass
class _Run:
    client: Any
    identity: str

    def write(self, record: Record) -> None:
        for name, value in numbers_of(record).items():
            self.client.log_metric(self.identity, name, value, step=record["epoch"])
        for name, text in words_of(record).items():
            self.client.set_tag(self.identity, name, text)

    def close(self) -> None:
        self.client.set_terminated(self.identity)
