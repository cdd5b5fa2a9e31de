"""The comparison itself: it must pass on a right table and fail on each kind of wrong one."""
import json
import shutil

import delta_log
import pytest
import readers

MAKE = """CREATE TABLE delta.`{t}` (id BIGINT, i8 TINYINT, i16 SMALLINT, i32 INT, f32 FLOAT, f64 DOUBLE, d9 DECIMAL(9,2),
  d38 DECIMAL(38,18), s STRING, b BOOLEAN, bin BINARY, dt DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ,
  st STRUCT<a: INT, b: STRUCT<c: STRING>>, l ARRAY<STRUCT<x: BIGINT>>, m MAP<STRING, ARRAY<INT>>) USING delta"""
FILL = """INSERT INTO delta.`{t}` VALUES
  (1, 1, 2, 3, CAST(1.5 AS FLOAT), -2.5, 1234567.89, CAST('12345678901234567890.123456789012345678' AS DECIMAL(38,18)), 'é\\'\\\\%', true,
   X'00FF', DATE'1969-12-31', TIMESTAMP'1965-01-02 03:04:05.123456Z', TIMESTAMP_NTZ'1965-01-02 03:04:05.654321',
   named_struct('a', 1, 'b', named_struct('c', 'z')), array(named_struct('x', 1L), NULL), map('k', array(1, NULL))),
  (2, -1, -2, -3, CAST('NaN' AS FLOAT), 1e300, -0.01, CAST('-0.000000000000000001' AS DECIMAL(38,18)), '', false,
   X'', DATE'2026-01-01', TIMESTAMP'2026-01-02 03:04:05.999999Z', TIMESTAMP_NTZ'2026-01-02 03:04:05',
   named_struct('a', NULL, 'b', NULL), array(), map()),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"""


@pytest.fixture(scope="module")
def made_by_spark(spark, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("readers") / "t")
    readers.sql(MAKE.format(t=path))
    readers.sql(FILL.format(t=path))
    return path


@pytest.fixture
def table(made_by_spark, tmp_path):
    return shutil.copytree(made_by_spark, str(tmp_path / "t"))


def test_all_engines_agree_on_a_table_of_spark(table):
    rows = sorted(readers.compare(table), key=lambda row: row["id"])
    assert rows[0]["d38"] == "12345678901234567890.123456789012345678"
    assert rows[0]["ts"] == "1965-01-02T03:04:05.123456Z"
    assert rows[0]["ntz"] == "1965-01-02T03:04:05.654321"
    assert rows[0]["bin"] == "hex:00ff"
    assert rows[0]["l"] == [{"x": 1}, None]
    assert rows[1]["f32"] == "nan"
    assert rows[2]["st"] is None
    assert readers.check_filters(table, engines=("duckdb", "deltalake", "chdb")) > 200


def test_deletion_vectors_are_honoured_by_all(spark, tmp_path):
    path = str(tmp_path / "t")
    readers.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    readers.sql(f"INSERT INTO delta.`{path}` SELECT id FROM range(0, 100, 1, 1)")
    readers.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 3")
    readers.compare(path, [{"id": i} for i in range(100) if i % 10 != 3])


@pytest.mark.parametrize("column, kind, wrong", [
    ("id", "maxValues", 2),
    ("id", "minValues", 2),
    ("d38", "maxValues", 1),
    ("ts", "maxValues", "1999-01-01T00:00:00.000Z"),
    ("s", "minValues", "zz"),
    ("dt", "nullCount", 1),
])
def test_wrong_statistics_are_noticed(table, column, kind, wrong):
    name = delta_log.commit_files(table)[-1]
    lines = []
    for line in open(name, encoding="utf-8"):
        action = json.loads(line)
        if "add" in action:
            stats = json.loads(action["add"]["stats"])
            if column != "d38":
                # its digits do not survive the way through a float
                del stats["minValues"]["d38"], stats["maxValues"]["d38"]
            if stats["nullCount"]["id"] == 0 and kind in stats and column in stats[kind]:
                stats[kind][column] = wrong
            action["add"]["stats"] = json.dumps(stats)
        lines.append(json.dumps(action))
    with open(name, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")
    with pytest.raises(AssertionError, match=f": {column} "):
        readers.check_filters(table, engines=("duckdb", "deltalake", "chdb"))


def test_another_row_or_value_is_noticed(table):
    rows = readers.rows("duckdb", table)
    with pytest.raises(AssertionError, match="missing"):
        readers.compare(table, rows + rows[:1], engines=("duckdb",), filters=False)
    changed = [{**row, "d9": "7.00"} if row["id"] == 1 else row for row in rows]
    with pytest.raises(AssertionError, match="1234567.89"):
        readers.compare(table, changed, engines=("duckdb",), filters=False)
