"""Every type of the contract in one stream, and as partition columns; five engines must see the same."""
import base64
import json
import os
from urllib.parse import unquote

import delta_log
import pyarrow.parquet
import pytest
import readers
import target

NULL = "null"


class Exact(str):
    """JSON as it is to stand in the line: a float of Python would lose its digits."""


# name: (JSON Schema, type in the table, values of the records as (what is sent, what must be stored))
COLUMNS = {
    "long": ({"type": "integer"}, "bigint", [(1, 1), (-9223372036854775808, -9223372036854775808), (9223372036854775807, 9223372036854775807)]),
    "huge": ({"type": "integer", "maximum": 10**30}, "decimal(38,0)", [(10**30, str(10**30)), (-1, "-1"), (0, "0")]),
    "double": ({"type": "number"}, "double", [(1.5, "1.5"), (-1e300, "-1e+300"), (0.1, "0.1")]),
    "cents": ({"type": "number", "multipleOf": 0.01}, "decimal(38,2)", [(0.01, "0.01"), (-123456.78, "-123456.78"), (5, "5.00")]),
    "numeric": ({"type": "number", "multipleOf": 1e-38}, "decimal(38,18)", 
                [Exact("12345678901234567890.123456789012345678"), Exact("-99999999999999999999.999999999999999999"), Exact("0.000000000000000001")]),
    "typed": ({"type": "number", "format": "singer.decimal", "precision": 12, "scale": 3}, "decimal(12,3)", [Exact("999999999.999"), Exact("-0.001"), Exact("7.000")]),
    "as_text": ({"type": "string", "format": "singer.decimal", "precision": 38, "scale": 10}, "decimal(38,10)", [("1234567890123456789012345678.0123456789",) * 2, ("-1", "-1.0000000000"), ("0.5", "0.5000000000")]),
    "flag": ({"type": "boolean"}, "boolean", [(True, True), (False, False), (True, True)]),
    "text": ({"type": "string"}, "string", [("", ""), ("é 漢 🎉 \u0000 '\"\\%", "é 漢 🎉 \u0000 '\"\\%"), ("z" * 100, "z" * 100)]),
    "high": ({"type": "string"}, "string", [("\U0010ffff" * 40,) * 2, ("\uffff" * 40,) * 2, ("\U0001f600" + "x" * 40,) * 2]),
    "day": ({"type": "string", "format": "date"}, "date", [("2026-02-28", "2026-02-28"), ("1965-12-31", "1965-12-31"), ("2024-02-29", "2024-02-29")]),
    "moment": ({"type": "string", "format": "date-time"}, "timestamp", [("2026-01-02T03:04:05.123456Z",) * 2, ("1965-01-02 03:04:05+02:30", "1965-01-02T00:34:05.000000Z"), ("1969-12-31T23:59:59.999999Z",) * 2]),
    "guid": ({"type": "string", "format": "uuid"}, "string", [("0f4ee0c4-6f4f-4b9e-8d3c-0d5b6fd3a111",) * 2] * 3),
    "bytes": ({"type": "string", "contentEncoding": "base64"}, "binary", [(base64.b64encode(b).decode(), "hex:" + b.hex()) for b in (b"\x00\xff", b"", b"text")]),
    "deep": ({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "object", "properties": {
                "c": {"type": "string"}, "d": {"type": "number", "multipleOf": 0.001}, "t": {"type": "string", "format": "date-time"}}}}},
             "struct<a:bigint,b:struct<c:string,d:decimal(38,3),t:timestamp>>",
             [({"a": 1, "b": {"c": "x", "d": 1.25, "t": "2026-01-01T00:00:00Z"}}, {"a": 1, "b": {"c": "x", "d": "1.250", "t": "2026-01-01T00:00:00.000000Z"}}),
              ({"a": None, "b": None}, {"a": None, "b": None}),
              ({"a": -5, "b": {"c": ""}}, {"a": -5, "b": {"c": "", "d": None, "t": None}})]),
    "list": ({"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "string"}}}}},
             "array<struct<x:bigint,y:array<string>>>",
             [([{"x": 1, "y": ["a", "b"]}, {"x": None, "y": []}], [{"x": 1, "y": ["a", "b"]}, {"x": None, "y": []}]), ([], []), ([{"x": 3, "y": ["é"]}], [{"x": 3, "y": ["é"]}])]),
    "map": ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>", [({"k": 1, "é": -2}, {"k": 1, "é": -2}), ({}, {}), ({"z": 0}, {"z": 0})]),
    "json": ({"type": "object"}, "string", 
             [(Exact('{ "b": [1, 2.50, null], "a": {"x": "é"} }'), '{"b":[1,2.50,null],"a":{"x":"é"}}'), ({}, "{}"), (Exact('{"n":[12345678901234567890.0, 1e400]}'), '{"n":[12345678901234567890.0,1e400]}')]),
    "mixed": ({"type": ["integer", "string", "boolean"]}, "string", [(1, "1"), ("1", "1"), (True, "true")]),
}


def sent_as_json(value):
    """One value as it stands in the line."""
    sent = value[0] if isinstance(value, tuple) else value
    return sent if isinstance(sent, Exact) else json.dumps(sent, ensure_ascii=False)


def stored(value):
    return str(value) if isinstance(value, Exact) else value[1]


def lines_of(columns, stream="everything"):
    """The stream (schema, one record per value and one of nulls, a state) as text, and the rows that must be stored."""
    names = list(columns)
    lines = [target.schema(stream, {"id": {"type": "integer"}, **{
        n: {**columns[n][0], "type": [columns[n][0]["type"], NULL] if isinstance(columns[n][0]["type"], str) else columns[n][0]["type"] + [NULL]} for n in names}}, ["id"])]
    rows = []
    for i in range(3):
        values = {n: columns[n][2][i] for n in names}
        body = ",".join(f'"{n}":{sent_as_json(v)}' for n, v in values.items())
        lines.append(f'{{"type":"RECORD","stream":"{stream}","record":{{"id":{i},{body}}}}}')
        rows.append({"id": i, **{n: stored(v) for n, v in values.items()}})
    lines.append(target.record(stream, {"id": 3, **dict.fromkeys(names)}))
    lines.append(target.record(stream, {"id": 4}))
    rows += [{"id": i, **dict.fromkeys(names)} for i in (3, 4)]
    lines.append(target.state({"at": 4}))
    return lines, rows


CONFIG = {"binary_columns": "decode"}


def test_every_type_is_read_alike_by_all(lake, spark):
    lines, rows = lines_of(COLUMNS)
    target.load({"destination": lake, **CONFIG}, lines).ok()
    table = os.path.join(lake, "everything")
    assert readers.delta_types(table) == {"id": "bigint", **{n: c[1] for n, c in COLUMNS.items()}}
    for engine in readers.ALL:
        assert readers.fits(engine, table, rows) is None
    readers.compare(table, rows)


def test_dates_of_all_centuries(lake, spark):
    """Read by all but ClickHouse, whose dates begin in 1900."""
    lines = [target.schema("x", {"id": {"type": "integer"}, "day": {"type": "string", "format": "date"}, "at": {"type": "string", "format": "date-time"}}, ["id"])]
    rows = [{"id": i, "day": day, "at": f"{day}T01:02:03.000004Z"} for i, day in enumerate(("0001-01-01", "1582-10-04", "1582-10-15", "1899-12-31", "9999-12-31"))]
    target.load({"destination": lake}, lines + [target.record("x", r) for r in rows]).ok()
    readers.compare(os.path.join(lake, "x"), rows, engines=[e for e in readers.ALL if e != "chdb"])


def test_many_files_prune_right(lake, spark):
    """One file per value: here a wrong bound hides a row."""
    columns = {n: c for n, c in COLUMNS.items() if n not in ("deep", "list", "map")}
    for i in range(3):
        lines, rows = lines_of(columns)
        target.load({"destination": lake, **CONFIG}, [lines[0], lines[1 + i], lines[-1]]).ok()
    table = os.path.join(lake, "everything")
    assert len(delta_log.live_adds(table)) == 3
    readers.compare(table, rows[:3])


def test_bounds_are_kept_for_the_columns_that_filters_use(lake):
    lines, _ = lines_of(COLUMNS)
    target.load({"destination": lake, **CONFIG}, lines).ok()
    table = os.path.join(lake, "everything")
    bounds = delta_log.columns_with_bounds(table)
    for name in ("id", "long", "huge", "double", "cents", "numeric", "typed", "as_text", "text", "day", "moment"):
        assert (name,) in bounds, f"no bounds for {name}: {bounds}"
    assert ("deep", "a") in bounds and ("deep", "b", "d") in bounds
    [add] = delta_log.live_adds(table)
    stats = delta_log.statistics(add)
    assert stats["numRecords"] == 5
    assert '"numeric":12345678901234567890.123456789012345678' in add["stats"].replace(" ", "")
    assert stats["nullCount"]["text"] == 2


def test_nan_is_kept_on_request_and_null_otherwise(lake, spark):
    lines = [target.schema("n", {"id": {"type": "integer"}, "x": {"type": "number"}}, ["id"])] + [
        f'{{"type":"RECORD","stream":"n","record":{{"id":{i},"x":{x}}}}}' for i, x in enumerate(("NaN", "Infinity", "-Infinity", "1.5", "null"))]
    target.load({"destination": lake + "/kept", "keep_nan": True}, lines).ok()
    readers.compare(lake + "/kept/n", [{"id": i, "x": x} for i, x in enumerate(("nan", "inf", "-inf", "1.5", None))])
    result = target.load({"destination": lake + "/null"}, lines).ok()
    readers.compare(lake + "/null/n", [{"id": i, "x": x} for i, x in enumerate((None, None, None, "1.5", None))])
    assert "NaN" in result.stderr


def test_naive_timestamps_as_ntz(lake, spark):
    lines = [target.schema("n", {"id": {"type": "integer"}, "t": {"type": "string", "format": "date-time"}}, ["id"]),
             target.record("n", {"id": 1, "t": "1965-01-02T03:04:05.000001"}), target.record("n", {"id": 2, "t": "2026-01-02 03:04:05"})]
    target.load({"destination": lake, "naive_timestamps": "ntz"}, lines).ok()
    readers.compare(lake + "/n", [{"id": 1, "t": "1965-01-02T03:04:05.000001"}, {"id": 2, "t": "2026-01-02T03:04:05.000000"}])
    assert readers.delta_types(lake + "/n")["t"] == "timestamp_ntz"


# ---------------------------------------------------------------- partitions

PARTITIONS = {
    # name: (JSON Schema, [(sent, stored)])
    "text": ({"type": ["string", NULL]}, [(v, v) for v in (
        "a b/%", None, "é漢🎉", "x=y&z", "a:b", "%20", "..", ".", "c:\\d", "quote'\"", "tab\tnew\nline", "trailing ", "#?*<>|", "{}[]^")]),
    "day": ({"type": ["string", NULL], "format": "date"}, [("2026-01-01",) * 2, ("1965-12-31",) * 2, (None, None)]),
    "moment": ({"type": ["string", NULL], "format": "date-time"}, [("2026-01-02T03:04:05.123456Z",) * 2, ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59.000000Z"), (None, None)]),
    "price": ({"type": ["number", NULL], "multipleOf": 0.01}, [(1.5, "1.50"), (-0.01, "-0.01"), (0, "0.00"), (None, None)]),
    "count": ({"type": ["integer", NULL]}, [(1, 1), (-9223372036854775808,) * 2, (None, None)]),
    "ratio": ({"type": ["number", NULL]}, [(0.1, "0.1"), (-1e300, "-1e+300"), (None, None)]),
    "flag": ({"type": ["boolean", NULL]}, [(True, True), (False, False), (None, None)]),
}


@pytest.mark.parametrize("name", sorted(PARTITIONS))
def test_partition_values(name, lake, spark):
    schema, values = PARTITIONS[name]
    lines = [target.schema("x", {"id": {"type": "integer"}, "p": schema}, ["id"])]
    lines += [target.record("x", {"id": i, "p": sent}) for i, (sent, _) in enumerate(values)]
    lines += [target.record("x", {"id": 100 + i, "p": sent}) for i, (sent, _) in enumerate(values)]
    target.load({"destination": lake, "streams": {"x": {"partition_by": ["p"]}}}, lines).ok()
    table = os.path.join(lake, "x")
    assert delta_log.partition_columns(table) == ["p"]
    assert len(delta_log.live_adds(table)) == len(values)
    rows = [{"id": i + at, "p": stored} for at in (0, 100) for i, (_, stored) in enumerate(values)]
    readers.compare(table, rows)


def test_the_text_that_hive_writes_for_null_is_data(lake, spark):
    lines = [target.schema("x", {"id": {"type": "integer"}, "p": {"type": ["null", "string"]}}, ["id"])]
    rows = [{"id": 1, "p": "__HIVE_DEFAULT_PARTITION__"}, {"id": 2, "p": None}]
    target.load({"destination": lake, "streams": {"x": {"partition_by": ["p"]}}}, lines + [target.record("x", r) for r in rows]).ok()
    table = os.path.join(lake, "x")
    # Polars reads the value from the folder's name, decodes it and takes that very text for null, whatever the log says
    readers.compare(table, rows, engines=[e for e in readers.ALL if e != "polars"])
    assert len({add["path"].split("/")[0] for add in delta_log.live_adds(table)}) == 2


def test_an_empty_string_as_partition_value_becomes_null_with_a_warning(lake, spark):
    lines = [target.schema("x", {"id": {"type": "integer"}, "p": {"type": "string"}}, ["id"]),
             target.record("x", {"id": 1, "p": ""}), target.record("x", {"id": 2, "p": "a"})]
    result = target.load({"destination": lake, "streams": {"x": {"partition_by": ["p"]}}}, lines).ok()
    readers.compare(os.path.join(lake, "x"), [{"id": 1, "p": None}, {"id": 2, "p": "a"}])
    assert "an empty text in a partition column cannot be told from null there" in result.stderr


def test_two_partition_columns(lake, spark):
    lines = [target.schema("x", {"a": {"type": "string"}, "id": {"type": "integer"}, "b": {"type": "string", "format": "date"}}, ["id"])]
    rows = [{"a": f"v{i % 3}/", "id": i, "b": f"2026-01-0{i % 2 + 1}"} for i in range(30)]
    lines += [target.record("x", r) for r in rows]
    target.load({"destination": lake, "streams": {"x": {"partition_by": ["b", "a"]}}}, lines).ok()
    table = os.path.join(lake, "x")
    assert delta_log.partition_columns(table) == ["b", "a"]
    assert len(delta_log.live_adds(table)) == 6
    readers.compare(table, rows)
    # the files hold no partition column, and stand in the folders that Hive would give them
    for add in delta_log.live_adds(table):
        path = unquote(add["path"])
        assert path.startswith(f"b={add['partitionValues']['b']}/a={add['partitionValues']['a'].replace('/', '%2F')}/"), path
        assert pyarrow.parquet.ParquetFile(os.path.join(table, path)).schema_arrow.names == ["id"]
