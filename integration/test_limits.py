"""Bounds: resident memory on a long stream, one very large field, a thousand streams at once.

CI runs a small form of each. The full form, some minutes each:

  pytest -m slow integration/test_limits.py

DELTA_LOAD_LONG_BYTES, DELTA_LOAD_FIELD_BYTES, DELTA_LOAD_STREAMS, DELTA_LOAD_ROWS_PER_STREAM set other sizes for both.
"""
import base64
import hashlib
import json
import os
import random
import subprocess
import tempfile
import threading
import time

import delta_log
import pytest
import readers
import target

MIB = 1 << 20
LIMIT = 512 * MIB
OVER = 64 * MIB


def size(name, otherwise):
    return int(os.environ.get(name, otherwise))


def high_water(pid):
    """The highest resident memory of the process so far. (Its ru_maxrss would count what pytest had before the exec.)"""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return next((int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM:")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def load_measured(config, chunks):
    """Feeds the chunks to the target; returns its result, its highest resident memory and the bytes fed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config, f)
        with open(os.path.join(folder, "out"), "w+b") as out, open(os.path.join(folder, "err"), "w+b") as err:
            process = subprocess.Popen([target.binary(), "--config", path], stdin=subprocess.PIPE, stdout=out, stderr=err, env=target.clean_environment())
            fed = [0]

            def feed():
                try:
                    for chunk in chunks:
                        process.stdin.write(chunk)
                        fed[0] += len(chunk)
                    process.stdin.close()
                except BrokenPipeError:
                    pass

            feeder = threading.Thread(target=feed)
            feeder.start()
            highest = 0
            while process.poll() is None:
                highest = max(highest, high_water(process.pid))
                time.sleep(0.01)
            feeder.join()
            out.seek(0)
            err.seek(0)
            return target.Result(process.returncode, out.read().decode(), err.read().decode(errors="replace")), highest, fed[0]


def long_stream(total_bytes, streams=1):
    """Rows of twenty columns, some 600 bytes each, with a STATE in every two hundred thousand; the texts do not repeat."""
    rng = random.Random(20130101)
    names = [f"long{i}" for i in range(streams)]
    properties = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}, "amount": {"type": "number", "multipleOf": 0.01},
                  **{f"n{i}": {"type": "integer"} for i in range(7)}, **{f"s{i}": {"type": "string"} for i in range(10)}}
    for name in names:
        yield target.as_input([target.schema(name, properties, ["id"])])
    # a thousand rows are made once, their key and one text are new each time: Python makes some 100 MB/s so
    bodies = []
    for _ in range(1000):
        body = ",".join([f'"n{i}":{rng.randrange(10 ** (i + 1))}' for i in range(7)] + [f'"s{i}":"{rng.randbytes(15 + i).hex()}"' for i in range(1, 10)])
        bodies.append(f'"at":"2026-01-{rng.randrange(1, 29):02d}T{rng.randrange(24):02d}:00:00.{rng.randrange(10**6):06d}Z","amount":{rng.randrange(10**7) / 100},{body}}}}}\n')
    sent, row = 0, 0
    while sent < total_bytes:
        name = names[row // 1000 % streams]
        chunk = "".join(f'{{"type":"RECORD","stream":"{name}","record":{{"id":{row + i},"s0":"{(row + i) * 2654435761 % 2**64:016x}",{body}' for i, body in enumerate(bodies))
        row += 1000
        if row % 200_000 == 0:
            chunk += json.dumps(target.state({"rows": row})) + "\n"
        data = chunk.encode()
        sent += len(data)
        yield data
    yield target.as_input([target.state({"rows": row})])


def check_long(lake, total_bytes):
    result, resident, fed = load_measured({"destination": lake}, long_stream(total_bytes))
    result.ok()
    print(f"{fed / 1e6:,.0f} MB: {resident / MIB:,.0f} MiB resident")
    rows = result.states[-1]["rows"]
    found = readers.duckdb_query(f"SELECT count(*), count(DISTINCT id), max(id) FROM delta_scan('{lake}/long0')", lambda result: result.fetchone())
    assert found == (rows, rows, rows - 1)
    assert resident <= LIMIT + OVER, f"{resident / MIB:,.0f} MiB resident"


def field_of(size_bytes):
    # hex would halve under compression; of these 64 characters each byte carries six bits
    text = random.Random(7).randbytes(size_bytes * 3 // 4)
    return base64.b64encode(text).decode()


def check_field(lake, field_bytes):
    field = field_of(field_bytes)
    lines = [target.schema("big", {"id": {"type": "integer"}, "s": {"type": "string"}}, ["id"]), target.record("big", {"id": 1, "s": "small"}),
             target.record("big", {"id": 2, "s": field}), target.record("big", {"id": 3, "s": "small"}), target.state({"at": 3})]
    result, resident, _ = load_measured({"destination": lake}, [target.as_input([line]) for line in lines])
    result.ok()
    print(f"field of {field_bytes / 1e6:,.0f} MB: {resident / MIB:,.0f} MiB resident")
    assert resident <= LIMIT + OVER, f"{resident / MIB:,.0f} MiB resident"
    table = os.path.join(lake, "big")
    found = dict(readers.duckdb_query(f"SELECT id, md5(s) FROM delta_scan('{table}')", lambda result: result.fetchall()))
    assert found[2] == hashlib.md5(field.encode()).hexdigest() and len(found) == 3
    for add in delta_log.live_adds(table):
        assert len(add["stats"]) < 10_000


def check_many_streams(lake, streams, rows):
    def chunks():
        properties = {"id": {"type": "integer"}, "s": {"type": "string"}}
        yield target.as_input([target.schema(f"s{i}", properties, ["id"]) for i in range(streams)])
        for row in range(rows):
            yield target.as_input([target.record(f"s{i}", {"id": row, "s": f"{i}-{row}"}) for i in range(streams)])
        yield target.as_input([target.state({"rows": rows})])

    result, resident, _ = load_measured({"destination": lake}, chunks())
    assert result.ok().states == [{"rows": rows}]
    print(f"{streams} streams: {resident / MIB:,.0f} MiB resident")
    assert resident <= LIMIT + OVER
    assert len(os.listdir(lake)) == streams
    for i in {0, streams // 2, streams - 1}:
        want = [{"id": row, "s": f"{i}-{row}"} for row in range(rows)]
        readers.assert_same_rows(readers.rows("duckdb", os.path.join(lake, f"s{i}")), want, f"s{i}")
    for i in range(streams):
        assert sum(delta_log.statistics(a)["numRecords"] for a in delta_log.live_adds(os.path.join(lake, f"s{i}"))) == rows


def test_a_long_stream_stays_within_the_limit(lake):
    check_long(lake, size("DELTA_LOAD_LONG_BYTES", 50_000_000))


def test_one_large_field(lake):
    check_field(lake, size("DELTA_LOAD_FIELD_BYTES", 20_000_000))


def test_a_thousand_streams(lake):
    check_many_streams(lake, size("DELTA_LOAD_STREAMS", 1000), size("DELTA_LOAD_ROWS_PER_STREAM", 5))


def test_a_line_beyond_a_fifth_of_the_limit_is_refused_by_name(lake):
    lines = [target.schema("big", {"id": {"type": "integer"}, "s": {"type": "string"}}, ["id"]), target.record("big", {"id": 1, "s": "x" * 20_000_000})]
    target.load({"destination": lake, "memory_limit_bytes": 64 * MIB}, lines).refused("memory_limit_bytes", "line 2", codes=(1,))


def test_a_smaller_limit_holds_too(lake):
    result, resident, _ = load_measured({"destination": lake, "memory_limit_bytes": 64 * MIB}, long_stream(size("DELTA_LOAD_LONG_BYTES", 50_000_000) * 4, streams=4))
    result.ok()
    print(f"{resident / MIB:,.0f} MiB resident under a limit of 64 MiB")
    assert resident <= 64 * MIB + OVER, f"{resident / MIB:,.0f} MiB resident"


@pytest.mark.slow
def test_five_gigabytes(lake):
    check_long(lake, size("DELTA_LOAD_LONG_BYTES", 5_000_000_000))


@pytest.mark.slow
def test_a_field_of_a_hundred_megabytes(lake):
    check_field(lake, size("DELTA_LOAD_FIELD_BYTES", 100_000_000))


@pytest.mark.slow
def test_a_thousand_streams_with_more_rows(lake):
    check_many_streams(lake, size("DELTA_LOAD_STREAMS", 1000), size("DELTA_LOAD_ROWS_PER_STREAM", 500))
