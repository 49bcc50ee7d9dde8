"""A Ray cluster of two nodes on this machine, one CPU each, in a process of its own.

It prints its address; ``kill`` on its standard input kills the second node, and the end of the input stops all.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ray_folder", "two_nodes"]

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20, "node_ip_address": "127.0.0.2"}


@contextmanager
def ray_folder() -> Iterator[dict[str, str]]:
    """Return an environment in which Ray keeps its files in a folder of its own; its sockets need a short path."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield {"RAY_TMPDIR": folder, "RAY_USAGE_STATS_ENABLED": "0"}


@contextmanager
def two_nodes() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Start the cluster; yield its address and its process."""
    with ray_folder() as environment, subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, **environment}, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            said = next(line for line in process.stdout if line.startswith("address "))
            yield said.split()[1], process
        finally:
            process.stdin.close()
            process.wait(60)


def main() -> None:
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    second = cluster.add_node(**NODE)
    sys.stdout.write(f"address {cluster.address}\n")
    sys.stdout.flush()
    for line in sys.stdin:
        if line == "kill\n":
            cluster.remove_node(second, allow_graceful=False)
    cluster.shutdown()


if __name__ == "__main__":
    main()
