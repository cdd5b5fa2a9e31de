"""Tables that somebody else made (Spark, for the Delta kernels' own tests): appended to, or refused and left alone.

DELTA_LOAD_GOLDEN names a folder of archives, NAME.tar.zst each.
"""
import os
import shutil
import subprocess

import delta_log
import pytest
import readers
import target

FOLDER = os.environ.get("DELTA_LOAD_GOLDEN", "")
NAMES = sorted(n.removesuffix(".tar.zst") for n in os.listdir(FOLDER) if n.endswith(".tar.zst")) if os.path.isdir(FOLDER) else []


def test_the_golden_tables_are_there():
    reason = f"DELTA_LOAD_GOLDEN ({FOLDER!r}) holds no .tar.zst: no golden table is tested"
    if not NAMES and not os.environ.get("CI"):
        pytest.skip(reason)
    assert NAMES, reason


def unpack(name, where):
    """Unpacks the archive; returns the folder of the table: the one with a log, else the one that a reader would be given."""
    os.makedirs(where)
    subprocess.run(["tar", "--zstd", "-xf", os.path.join(FOLDER, f"{name}.tar.zst"), "-C", where], check=True)
    tables = sorted(root for root, folders, _ in os.walk(where) if "_delta_log" in folders)
    if tables:
        return min(tables, key=len)
    inner = os.path.join(where, name)
    return next(p for p in (os.path.join(inner, "delta"), inner, where) if os.path.isdir(p))


# how a column of the table is declared by the stream that is sent to it, and a value for it
SIMPLE = {
    "long": ({"type": "integer"}, 7), "integer": ({"type": "integer"}, 7), "short": ({"type": "integer"}, 7), "byte": ({"type": "integer"}, 7),
    "double": ({"type": "number"}, 0.5), "float": ({"type": "number"}, 0.5), "boolean": ({"type": "boolean"}, True),
    "string": ({"type": "string"}, "ours"), "date": ({"type": "string", "format": "date"}, "2026-01-02"),
    "timestamp": ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05.123456Z"),
    "timestamp_ntz": ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05.123456"),
}


def our_row(table):
    """A stream for the table: its simple columns, one record; partition columns always with a value where we know one."""
    properties, values = {}, {}
    for field in delta_log.schema(table)["fields"]:
        kind = field["type"]
        if isinstance(kind, str) and kind.startswith("decimal"):
            precision, scale = readers.decimal_digits(kind)
            properties[field["name"]] = {"type": ["null", "number"], "format": "singer.decimal", "precision": precision, "scale": scale}
            values[field["name"]] = 0
        elif isinstance(kind, str) and kind in SIMPLE:
            declared, values[field["name"]] = SIMPLE[kind]
            properties[field["name"]] = {**declared, "type": ["null", declared["type"]]}
    return properties, values


def read(engine, table):
    try:
        return readers.rows(engine, table)
    except Exception:
        return None


@pytest.mark.parametrize("name", NAMES)
def test_golden(name, tmp_path, spark):
    table = unpack(name, str(tmp_path / "golden"))
    lake = os.path.dirname(table)
    try:
        properties, values = our_row(table)
    except Exception:
        properties, values = {"id": {"type": "integer"}}, {"id": 7}  # no schema to be found in its log
    properties = properties or {"id": {"type": "integer"}}
    values = values or {"id": 7}
    # the stream's folder is the table's: a name that a path part may not hold is given by `table_path`
    path = os.path.basename(table)
    existed = os.path.isdir(os.path.join(table, "_delta_log"))
    before_bytes = delta_log.fingerprint(table)
    engines = ("duckdb", "deltalake", "spark")
    before = {e: read(e, table) for e in engines} if existed else {}

    result = target.load({"destination": lake, "streams": {"golden": {"table_path": path}}},
                         [target.schema("golden", properties), target.record("golden", values), target.state({"at": 1})])

    if result.code != 0:
        result.refused(codes=(1, 2))
        assert result.states == []
        after = delta_log.fingerprint(table)
        assert {k: v for k, v in after.items()} == before_bytes, f"refused, but changed: {sorted(set(after) ^ set(before_bytes))}"
        return
    assert result.states == [{"at": 1}]
    # nothing that stood there was touched: only files were added
    after = delta_log.fingerprint(table)
    gone_or_changed = [k for k, v in before_bytes.items() if after.get(k) != v and not k.endswith("_last_checkpoint")]
    assert not gone_or_changed, gone_or_changed
    if not existed:
        return
    readable = [e for e in engines if before[e] is not None]
    if not readable:
        # a log whose data files were never there: what can be said is that our row stands in it
        [add] = [a["add"] for a in delta_log.commits(table)[-1] if "add" in a]
        assert delta_log.statistics(add)["numRecords"] == 1
    ours = target.expected_rows([values], table)[0]
    for engine in readable:
        got = readers.rows(engine, table)
        old = [{**dict.fromkeys(ours), **row} for row in before[engine]]
        readers.assert_same_rows(got, old + [ours], f"{name} in {engine}")
    shutil.rmtree(table)
