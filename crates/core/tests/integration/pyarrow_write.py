"""Recordings written from docs/recording-format.md alone, in the ways that people write Parquet.

    pyarrow_write.py write DIR    makes the recordings that pyarrow.rs reads
    pyarrow_write.py read DIR     reads a recording of ours with pyarrow, pandas and DuckDB; prints what it found
"""

import json
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq

SDB = 8 << 20 | 16
N = 10_000


def recording(root, name, **meta):
    path = os.path.join(root, name)
    os.makedirs(os.path.join(path, "io"))
    base = {"schema_version": 1, "source": "import:pyarrow", "start_unix_ns": 1795000000000000000}
    with open(os.path.join(path, "meta.json"), "w") as f:
        json.dump(base | meta, f)
    return path


def required(rows):
    """The required columns of the given row numbers, plain Python integers (so int64 throughout)."""
    return {
        "done_ns": [i * 1000 for i in rows],
        "dev": [SDB for _ in rows],
        "op": [i % 2 for i in rows],
        "bytes": [4096 * (1 + i % 3) for i in rows],
        "device_ns": [50_000 + i % 777 for i in rows],
    }


def everything(rows):
    """All columns, some null in places, in another order and with other types than iolens writes."""
    comm = pa.array([None if i % 5 == 0 else ("fio", "naïve \\x41")[i % 2] for i in rows]).dictionary_encode()
    cols = required(rows)
    return pa.table({
        "comm": comm,
        "somebody_elses": pa.array([[i, i] for i in rows]),
        "sector": pa.array([i * 8 for i in rows], pa.uint64()),
        "origin": pa.array([i % 4 for i in rows], pa.int8()),
        "queue_ns": pa.array([None if i % 3 == 0 else i % 1000 for i in rows], pa.int32()),
        "device_ns": pa.array(cols["device_ns"], pa.uint32()),
        "bytes": pa.array(cols["bytes"], pa.int32()),
        "op": pa.array(cols["op"], pa.uint8()),
        "dev": pa.array(cols["dev"], pa.int64()),
        "done_ns": pa.array(cols["done_ns"], pa.int64()),
        "tgid": pa.array([None if i % 7 == 0 else i % 90 for i in rows], pa.int64()),
        "ino": pa.array([i // 10 for i in rows], pa.int64()),
    })


def write(root):
    io = "io/000001.parquet"
    least = pa.table(required(range(N)))
    pq.write_table(least, os.path.join(recording(root, "least.iolens", host="h"), io))
    for name, options in {
        "zstd": {"compression": "zstd"},
        "plain": {"compression": "none", "use_dictionary": False, "write_statistics": False},
        "v2": {"data_page_version": "2.0", "compression": "zstd", "version": "2.6"},
        "delta": {"use_dictionary": False, "column_encoding": {c: "DELTA_BINARY_PACKED" for c in required([])}},
        "split": {"use_dictionary": False, "column_encoding": {c: "BYTE_STREAM_SPLIT" for c in required([])}},
        "pages": {"write_page_checksum": True, "data_page_size": 1000, "write_page_index": True},
    }.items():
        pq.write_table(least, os.path.join(recording(root, f"{name}.iolens"), io), **options)
    path = recording(root, "everything.iolens", devices=[{"name": "sdb", "id": SDB, "kind": "unknown"}])
    # Several files and row groups, the second file before the first in time, and one row group out of order.
    pq.write_table(everything(range(5000, N)), os.path.join(path, "io/a.parquet"), row_group_size=1234)
    shuffled = list(range(0, 2000)) + list(range(4999, 1999, -1))
    pq.write_table(everything(shuffled), os.path.join(path, "io/b.parquet"), row_group_size=2000)
    binary = recording(root, "binary.iolens")
    comm = pa.array([b"a\xffb" if i % 2 else b"fio" for i in range(N)], pa.large_binary())
    pq.write_table(least.append_column("comm", comm), os.path.join(binary, io))
    damaged = recording(root, "damaged.iolens")
    pq.write_table(least, os.path.join(damaged, io), write_page_checksum=True, row_group_size=2500)
    with open(os.path.join(damaged, io), "r+b") as f:
        f.seek(pq.ParquetFile(f.name).metadata.row_group(1).column(0).data_page_offset + 300)
        byte = f.read(1)
        f.seek(-1, 1)
        f.write(bytes([byte[0] ^ 16]))
    without = recording(root, "without_bytes.iolens")
    pq.write_table(least.drop_columns(["bytes"]), os.path.join(without, io))
    text = recording(root, "text_dev.iolens")
    pq.write_table(least.set_column(1, "dev", pa.array(["sdb"] * N)), os.path.join(text, io))
    null = recording(root, "null_op.iolens")
    pq.write_table(least.set_column(2, "op", pa.array([None] + [0] * (N - 1), pa.int32())), os.path.join(null, io))
    gzip = recording(root, "gzip.iolens")
    pq.write_table(least, os.path.join(gzip, io), compression="gzip")


def read(path):
    import duckdb
    import pandas as pd

    files = sorted(os.listdir(os.path.join(path, "io")))
    files = [os.path.join(path, "io", f) for f in files]
    tables = [pq.ParquetFile(f, page_checksum_verification=True).read() for f in files]
    table = pa.concat_tables(tables)
    frame = pd.concat([pd.read_parquet(f) for f in files])
    rows, total, inos, comms = duckdb.connect().execute(
        f"select count(*), sum(bytes), count(ino), count(distinct comm) from '{path}/io/*.parquet'"
    ).fetchone()
    assert rows == table.num_rows == len(frame)
    assert total == sum(table["bytes"].to_pylist()) == frame["bytes"].sum()
    assert inos == frame["ino"].count()
    done = table["done_ns"].to_pylist()
    assert done == sorted(done)
    for f in files:
        stats = pq.ParquetFile(f).metadata.row_group(0).column(0).statistics
        column = pq.read_table(f)["done_ns"].to_pylist()
        assert (stats.min, stats.max) == (column[0], column[-1])
    print(json.dumps({"rows": rows, "bytes": int(total), "inos": inos, "comms": comms,
                      "sectors": sum(s for s in table["sector"].to_pylist() if s is not None)}))


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](sys.argv[2])
