"""A lake in an S3-compatible store on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.fs as pa_fs
import pytest
from free_port import free_port
from lakes import make_ended, make_root

import iolens
from iolens.cli import main
from iolens.compact import compact


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A generated root, and the URL of its copy. The server accepts any credentials; the client requires some."""
    pytest.importorskip("moto.server", reason="SKIP: moto with its server is not installed")
    pytest.importorskip("flask", reason="SKIP: moto with its server is not installed")
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    names = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        local = tmp_path_factory.mktemp("root")
        make_root(local)
        make_ended(local)
        url = f"s3://lake/fleet?scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1&allow_bucket_creation=true"
        _copy(local, url, server)
        yield local, url
    finally:
        server.terminate()
        server.wait()
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _copy(local: Path, url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if server.poll() is not None:
            pytest.skip("SKIP: the S3 server of moto does not start")
        try:
            store, _ = pa_fs.FileSystem.from_uri(url)
            store.create_dir("lake", recursive=True)
            break
        except OSError:
            time.sleep(0.1)
    _upload(local, url)


def _upload(local: Path, url: str) -> None:
    store, path = pa_fs.FileSystem.from_uri(url)
    for file in local.rglob("*"):
        if file.is_file():
            with store.open_output_stream(f"{path}/{file.relative_to(local)}") as stream:
                stream.write(file.read_bytes())


def test_a_bucket_answers_as_the_directory_does(bucket: tuple[Path, str]) -> None:
    local, url = bucket
    here, there = iolens.lake(local), iolens.lake(url)
    assert there.hosts().num_rows == 4
    for name in ("hosts", "latency", "noisy", "capacity"):
        # Sums of parts are added in any order, so their last digits differ.
        for a, b in zip(getattr(there, name)().to_pylist(), getattr(here, name)().to_pylist(), strict=True):
            assert a == {key: pytest.approx(v) if isinstance(v, float) else v for key, v in b.items()}, name
    sql = "select host, start_ns, at_unix_ns, device, stable_id, class, bytes, comm from ios order by all"
    assert there.query(sql).equals(here.query(sql))
    assert there.devices.fetchall() != []
    for relation in ("actors", "actors_10s", "findings", "containers"):
        sql = f"select * from {relation} order by all"
        assert there.query(sql).equals(here.query(sql)), relation
        assert here.query(sql).num_rows > 0, relation
    one = "select count(*) as n from ios where host = 'c/1'"
    assert there.query(one).to_pylist() == here.query(one).to_pylist() == [{"n": 800}]


def test_a_bucket_with_compacted_days_answers_as_the_directory_does(
    bucket: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iolens.compact._SETTLED_S", 0)
    _, url = bucket
    make_root(tmp_path)
    make_ended(tmp_path, "e")
    for file in sorted(tmp_path.glob("host=e/*/meta.json"))[:-1]:
        file.write_text(json.dumps({**json.loads(file.read_text()), "end_ns": 7200 * 10**9}))
    here = iolens.lake(tmp_path)
    expected = {name: getattr(here, name)() for name in ("hosts", "latency", "capacity")}
    sql = "select * from {} order by all"
    rows = {name: here.query(sql.format(name)) for name in ("ios", "rollup", "devices", "waits", "findings", "containers")}
    assert len(compact(tmp_path)) == 4
    url = url.replace("lake/fleet", "lake/compacted-fleet")
    _upload(tmp_path, url)
    there = iolens.lake(url)
    assert repr(there).endswith("4 hosts, 11 recordings>")
    for name, answer in expected.items():
        for a, b in zip(getattr(there, name)().to_pylist(), answer.to_pylist(), strict=True):
            assert a == {key: pytest.approx(v) if isinstance(v, float) else v for key, v in b.items()}, name
    for name, table in rows.items():
        assert there.query(sql.format(name)).to_pylist() == table.to_pylist(), name


def test_only_the_files_of_a_host_are_read(bucket: tuple[Path, str]) -> None:
    local, url = bucket
    there = iolens.lake(url)
    for file in local.glob("host=a/*/io/*.parquet"):
        store, path = pa_fs.FileSystem.from_uri(url)
        with store.open_output_stream(f"{path}/{file.relative_to(local)}") as stream:
            stream.write(b"no Parquet")
    assert there.query("select count(*) as n from ios where host = 'b'").to_pylist() == [{"n": 800}]
    with pytest.warns(UserWarning, match="is damaged and left out"):
        [of_a] = there.query("select count(*) as n, sum(bytes) as b from ios where host = 'a'").to_pylist()
    assert of_a == {"n": 0, "b": None}


def test_mistakes_with_urls(bucket: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    _, url = bucket
    assert main(["hosts", url.replace("lake/fleet", "lake/none")]) == 2
    assert main(["hosts", "gopher://lake"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    with pytest.raises(iolens.IolensError, match="reads directories only"):
        iolens.lake(url).findings()
