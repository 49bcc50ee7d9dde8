"""A real Slurm of one node on 127.0.0.1, in a folder of its own: munged, slurmctld and slurmd of Debian.

``python tests/slurm/one_node.py COMMAND...`` starts it, runs the command with it, and stops it by its process ids.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

__all__ = ["one_node", "programs"]

programs = ("munged", "slurmctld", "slurmd", "sbatch")
_PATIENCE = 60.0


@contextmanager
def one_node(folder: Path) -> Iterator[dict[str, str]]:
    """Start the three daemons; yield the environment in which Slurm's programs find them; stop them in the end."""
    folder.chmod(0o755)
    configuration = _write_configuration(folder)
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        socket_file = folder / "munge.socket"
        for command in (
            ["munged", "--foreground", "--force", f"--key-file={folder / 'munge.key'}", f"--socket={socket_file}",
             f"--pid-file={folder / 'munged.pid'}", f"--log-file={folder / 'munged.log'}",
             f"--seed-file={folder / 'munged.seed'}"],
            ["slurmctld", "-D", "-f", str(configuration)],
            ["slurmd", "-D", "-f", str(configuration), "-N", "node1"],
        ):  # fmt: skip
            with (folder / f"{command[0]}.out").open("ab") as log:
                daemons.append(
                    subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
                )
            if command[0] == "munged":
                _wait(socket_file.exists, "munged")
        _wait(lambda: _is_idle(environment), "slurmctld and slurmd")
        yield environment
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _write_configuration(folder: Path) -> Path:
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(128))
    key.chmod(0o600)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    controller, node = _free_ports()
    configuration = folder / "slurm.conf"
    configuration.write_text(
        f"""ClusterName=archgrad
SlurmctldHost={socket.gethostname()}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder / "munge.socket"},cred_expire=5
CryptoType=crypto/munge
SlurmctldPort={controller}
StateSaveLocation={folder / "state"}
SlurmdSpoolDir={folder / "spool"}
SlurmctldPidFile={folder / "slurmctld.pid"}
SlurmdPidFile={folder / "slurmd.pid"}
SlurmctldLogFile={folder / "slurmctld.log"}
SlurmdLogFile={folder / "slurmd.log"}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,bf_interval=2
ReturnToService=2
KillWait=20
MinJobAge=10
NodeName=node1 NodeHostname={socket.gethostname()} NodeAddr=127.0.0.1 Port={node} CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
    )
    return configuration


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _is_idle(environment: dict[str, str]) -> bool:
    told = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False)
    return told.stdout.split() == ["idle"]


def _wait(is_ready, what: str) -> None:  # type: ignore[no-untyped-def]
    until = time.monotonic() + _PATIENCE
    while not is_ready():
        if time.monotonic() > until:
            raise SystemExit(f"{what} did not answer within {_PATIENCE:g} seconds")
        time.sleep(0.2)


def main(command: Sequence[str]) -> int:
    """Run a command with a Slurm of its own."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        raise SystemExit(f"{', '.join(missing)} not found; install it as root: apt-get install slurm-wlm munge")
    folder = Path(tempfile.mkdtemp(prefix="archgrad-slurm-"))
    try:
        with one_node(folder) as environment:
            return subprocess.run(list(command), env=environment, check=False).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
