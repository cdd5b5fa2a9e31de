"""The whole pipe beside its peers, alternating in one run: delta-load, DuckDB and deltalake, each from the same events to zstd Parquet.

    python3 benches/compare.py --binary target/release/delta-load [--rows 500000] [--runs 10] [--work DIR]

Needs `duckdb` and `deltalake` (with pyarrow) from PyPI in the Python that runs it. DuckDB reads the same Singer lines with
`read_json` and keeps the record's columns; deltalake gets record batches of 10,000 rows from `json.loads`, as a Python target would do.
Every run's exit code and row count are checked: a peer that fails quickly must not look fast. Prints medians and spreads, and the
ratio to DuckDB pair by pair.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import events

DUCKDB = """
import duckdb, sys
source, target, threads = sys.argv[1:]
con = duckdb.connect()
con.execute(f"SET threads = {threads}")
columns = {"id": "BIGINT", "ts": "TIMESTAMPTZ", "user_id": "BIGINT", "session": "VARCHAR", "event": "VARCHAR", "url": "VARCHAR", "title": "VARCHAR",
    "referrer": "VARCHAR", "country": "VARCHAR", "device": "VARCHAR", "os": "VARCHAR", "browser": "VARCHAR", "duration_ms": "BIGINT", "scroll": "DOUBLE",
    "revenue": "DOUBLE", "currency": "VARCHAR", "is_bot": "BOOLEAN", "day": "DATE", "score": "DOUBLE", "note": "VARCHAR"}
record = "STRUCT(" + ", ".join(f'"{k}" {v}' for k, v in columns.items()) + ")"
con.execute(f"COPY (SELECT record.* FROM read_json('{source}', format='newline_delimited', columns={{type: 'VARCHAR', record: '{record}'}}) "
            f"WHERE type = 'RECORD') TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
"""

DELTALAKE = """
import json, sys
import pyarrow as pa
from deltalake import write_deltalake
source, target = sys.argv[1:]
schema = pa.schema([(n, t) for n, t in zip(
    "id ts user_id session event url title referrer country device os browser duration_ms scroll revenue currency is_bot day score note".split(),
    [pa.int64(), pa.timestamp("us", "UTC"), pa.int64()] + [pa.string()] * 9 + [pa.int64(), pa.float64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.float64(), pa.string()])])
import datetime
def batches():
    rows = []
    for line in open(source):
        message = json.loads(line)
        if message["type"] != "RECORD":
            continue
        record = message["record"]
        record["ts"] = datetime.datetime.fromisoformat(record["ts"].replace("Z", "+00:00"))
        record["day"] = datetime.date.fromisoformat(record["day"])
        rows.append(record)
        if len(rows) == 10_000:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)
write_deltalake(target, pa.RecordBatchReader.from_batches(schema, batches()))
"""


def run(command, stdin=None, stdout=subprocess.DEVNULL):
    """Runs to the end; returns wall seconds, CPU seconds, peak resident MiB."""
    before = time.perf_counter()
    with open(stdin or os.devnull, "rb") as source:
        child = subprocess.Popen(command, stdin=source, stdout=stdout, stderr=subprocess.PIPE)
        errors = child.stderr.read()
        _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - before
    if status != 0:
        sys.exit(f"{command[0]} ended with status {status}:\n{errors.decode()[-2000:]}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def rows_in(path):
    import duckdb
    return duckdb.sql(f"SELECT count(*) FROM read_parquet('{path}')").fetchone()[0]


def size_of(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(d, f)) for d, _, files in os.walk(path) for f in files if f.endswith(".parquet"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--deltalake-runs", type=int, default=2)
    parser.add_argument("--work", default=None)
    arguments = parser.parse_args()
    work = tempfile.mkdtemp(dir=arguments.work)
    try:
        source = os.path.join(work, "events.jsonl")
        digest = events.write(source, arguments.rows, bare=False)
        megabytes = os.path.getsize(source) / 1e6
        lake, parquet, peer = (os.path.join(work, name) for name in ("lake", "duckdb.parquet", "peer"))
        config = os.path.join(work, "config.json")
        with open(config, "w") as out:
            json.dump({"destination": lake}, out)
        threads = str(os.cpu_count())

        def ours():
            shutil.rmtree(lake, ignore_errors=True)
            figures = run([arguments.binary, "--config", config], stdin=source)
            assert rows_in(f"{lake}/events/*.parquet") == arguments.rows
            return figures

        def duck():
            figures = run([sys.executable, "-c", DUCKDB, source, parquet, threads])
            assert rows_in(parquet) == arguments.rows
            return figures

        def delta_python():
            shutil.rmtree(peer, ignore_errors=True)
            figures = run([sys.executable, "-c", DELTALAKE, source, peer])
            assert rows_in(f"{peer}/*.parquet") == arguments.rows
            return figures

        ours(), duck()
        results = {"delta-load": [], "DuckDB": [], "deltalake (Python)": []}
        for i in range(arguments.runs):
            results["delta-load"].append(ours())
            results["DuckDB"].append(duck())
            if i < arguments.deltalake_runs:
                results["deltalake (Python)"].append(delta_python())
        sizes = {"delta-load": size_of(lake), "DuckDB": size_of(parquet), "deltalake (Python)": size_of(peer)}
        import duckdb
        import deltalake
        print(f"{platform.platform()}, {os.cpu_count()} cores; DuckDB {duckdb.__version__}, deltalake {deltalake.__version__}; {arguments.runs} alternating runs")
        print(f"input: {arguments.rows} records, {megabytes:.1f} MB, sha256 {digest[:16]}")
        print(f"{'':20} {'wall s':>22} {'CPU s':>8} {'MiB':>6} {'rows/s':>10} {'MB/s':>7} {'MB out':>7}")
        for name, figures in results.items():
            if not figures:
                continue
            walls = [f[0] for f in figures]
            wall = statistics.median(walls)
            print(f"{name:20} {wall:8.3f} ({min(walls):.3f}-{max(walls):.3f}) {statistics.median(f[1] for f in figures):8.2f} "
                  f"{max(f[2] for f in figures):6.0f} {arguments.rows / wall:10.0f} {megabytes / wall:7.0f} {sizes[name] / 1e6:7.2f}")
        ratios = [d[0] / o[0] for o, d in zip(results["delta-load"], results["DuckDB"])]
        print(f"delta-load is {statistics.median(ratios):.2f} times as fast as DuckDB (pairs from {min(ratios):.2f} to {max(ratios):.2f})")
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
