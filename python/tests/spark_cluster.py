"""A standalone Spark cluster of one master and two workers on this machine, of one CPU each."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyspark
from free_port import free_port
from pyspark.sql import SparkSession

WORKERS = 2


def _serving(port: int) -> bool:
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def cluster(logs: Path, memory: str) -> Iterator[str]:
    """Its address."""
    port = free_port()
    env = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_WORKER_DIR": str(logs),
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(kind: str, *args: object) -> None:
        command = [f"{env['SPARK_HOME']}/bin/spark-class", f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1"]
        with (logs / f"{kind}{len(started)}.log").open("wb") as log:
            started.append(subprocess.Popen([*command, *map(str, args)], env=env, stdout=log, stderr=log))

    try:
        start("master.Master", "--port", port, "--webui-port", free_port())
        until = time.monotonic() + 60
        while not _serving(port) and time.monotonic() < until:
            time.sleep(0.2)
        for _ in range(WORKERS):
            start("worker.Worker", "--cores", 1, "--memory", memory, "--webui-port", free_port(), f"spark://127.0.0.1:{port}")
        yield f"spark://127.0.0.1:{port}"
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


@contextmanager
def session(master: str | None = None, memory: str = "512m") -> Iterator[Any]:
    """A session on `master`, or on a new cluster; `memory` is that of each worker and of the driver."""
    with ExitStack() as stack:
        if master is None:
            logs = stack.enter_context(tempfile.TemporaryDirectory(prefix="iolens-spark-"))
            master = stack.enter_context(cluster(Path(logs), memory))
        builder = SparkSession.builder.master(master).appName("iolens")
        options = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": memory,
            "spark.executor.memory": memory,
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.cores.max": str(WORKERS),
            # Otherwise executors log a line for every file, which takes a third of the time to read a small one.
            "spark.log.level": "ERROR",
            "spark.executor.syncLogLevel.enabled": "true",
        }
        for name, value in options.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()
