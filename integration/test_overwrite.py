"""`load_method: overwrite` on tables of ours and of Spark: what independent engines read, and what stays readable of the past."""
import os

import delta_log
import pytest
import readers
import target

OVERWRITE = {"load_method": "overwrite"}
SCHEMA = target.schema("t", {"id": {"type": "integer"}, "s": {"type": ["null", "string"]}, "p": {"type": ["null", "string"]}}, ["id"])


def rows(first, count):
    return [{"id": i, "s": f"row {i}", "p": ["a/b", "c d", None][i % 3]} for i in range(first, first + count)]


def overwrite(lake, records, **settings):
    messages = [SCHEMA, *(target.record("t", r) for r in records), target.state({"at": 1})]
    return target.load({"destination": lake, **OVERWRITE, **settings}, messages)


def test_again_and_again(lake, spark):
    table = os.path.join(lake, "t")
    for version, records in enumerate([rows(0, 50), rows(1000, 7), [], rows(5, 3)]):
        overwrite(lake, records).ok()
        assert delta_log.version(table) == version
        readers.compare(table, target.expected_rows(records, table))
    # every version is still there for those who travel in time
    for version, count in enumerate([50, 7, 0, 3]):
        assert readers.sql(f"SELECT count(*) AS n FROM delta.`{table}` VERSION AS OF {version}")[0]["n"] == count


@pytest.mark.parametrize("name, make", [
    ("deletion vectors", ["CREATE TABLE {t} (id BIGINT, s STRING, p STRING) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
                          "INSERT INTO {t} SELECT id, 'old', 'x' FROM range(0, 100, 1, 1)", "DELETE FROM {t} WHERE id % 7 = 3"]),
    ("partitions", ["CREATE TABLE {t} (id BIGINT, s STRING, p STRING) USING delta PARTITIONED BY (p)",
                    "INSERT INTO {t} VALUES (1, 'a', 'x/y z%'), (2, 'b', NULL), (3, 'c', 'ü')"]),
    ("another schema", ["CREATE TABLE {t} (id STRING, gone STRUCT<a: INT>) USING delta", "INSERT INTO {t} VALUES ('x', named_struct('a', 1))"]),
    ("a checkpoint", ["CREATE TABLE {t} (id BIGINT, s STRING, p STRING) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '2')",
                      *["INSERT INTO {t} VALUES (1, 'a', 'b')"] * 3]),
])
def test_tables_of_spark(name, make, lake, spark):
    table = os.path.join(lake, "t")
    for statement in make:
        readers.sql(statement.replace("{t}", f"delta.`{table}`"))
    before, old = delta_log.newest(table, "metaData"), readers.sql(f"SELECT count(*) AS n FROM delta.`{table}`")[0]["n"]
    version = delta_log.version(table)
    overwrite(lake, rows(0, 20)).ok()
    assert delta_log.version(table) == version + 1
    after = delta_log.newest(table, "metaData")
    assert after["id"] == before["id"] and after["configuration"] == before["configuration"]
    readers.compare(table, target.expected_rows(rows(0, 20), table))
    assert readers.sql(f"SELECT count(*) AS n FROM delta.`{table}` VERSION AS OF {version}")[0]["n"] == old
    # Spark goes on with it: it writes, cleans up, and the rows are as they should be
    readers.sql(f"INSERT INTO delta.`{table}` SELECT CAST(500 AS BIGINT) AS id, 'spark' AS s, 'q' AS p")
    readers.sql(f"DELETE FROM delta.`{table}` WHERE id = 3")
    expected = target.expected_rows([r for r in rows(0, 20) if r["id"] != 3] + [{"id": 500, "s": "spark", "p": "q"}], table)
    readers.compare(table, expected)
    overwrite(lake, rows(100, 4)).ok()
    readers.compare(table, target.expected_rows(rows(100, 4), table))


def test_a_table_that_only_grows_is_left_alone(lake, spark):
    table = os.path.join(lake, "t")
    readers.sql(f"CREATE TABLE delta.`{table}` (id BIGINT, s STRING, p STRING) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')")
    readers.sql(f"INSERT INTO delta.`{table}` VALUES (1, 'a', 'b')")
    before = delta_log.fingerprint(table)
    overwrite(lake, rows(0, 3)).refused("delta.appendOnly")
    assert delta_log.fingerprint(table) == before
