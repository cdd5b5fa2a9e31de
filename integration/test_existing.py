"""Tables that Spark made: appended to where their features allow it, refused untouched where not."""
import os

import delta_log
import pytest
import readers
import target

# the stream that is sent to them: id, s, d
SCHEMA = target.schema("t", {"id": {"type": "integer"}, "s": {"type": ["null", "string"]}, "d": {"type": ["null", "string"], "format": "date"}}, ["id"])
COLUMNS = "(id BIGINT, s STRING, d DATE)"
FILL = "INSERT INTO {t} SELECT id, concat('s', id), date_add(DATE'2026-01-01', CAST(id AS INT)) FROM range(10)"


def properties(**settings):
    return " TBLPROPERTIES (" + ", ".join(f"'delta.{k}' = '{v}'" for k, v in settings.items()) + ")"


def make(spark, lake, *statements):
    """Runs the statements on the table `{t}`, lake/t; returns its path."""
    path = os.path.join(lake, "t")
    session = spark.newSession()  # a SET is for this table only
    for statement in statements:
        session.sql(statement.replace("{t}", f"delta.`{path}`")).collect()
    return path


def rows_of_ours(first, count=3):
    return [target.record("t", {"id": i, "s": f"ours {i}", "d": "1969-01-01" if i % 2 else None}) for i in range(first, first + count)]


WRITABLE = {
    "plain": [f"CREATE TABLE {{t}} {COLUMNS} USING delta", FILL],
    "append_only": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(appendOnly="true"), FILL],
    "deletion_vectors": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(enableDeletionVectors="true"), FILL,
                         "DELETE FROM {t} WHERE id IN (3, 7)", "UPDATE {t} SET s = 'u' WHERE id = 5"],
    "legacy_protocol_1": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(minReaderVersion="1", minWriterVersion="1"), FILL],
    "legacy_protocol_6": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(minReaderVersion="1", minWriterVersion="6"), FILL],
    "vacuum_protocol_check": [f"CREATE TABLE {{t}} {COLUMNS} USING delta TBLPROPERTIES ('delta.feature.vacuumProtocolCheck' = 'supported')", FILL],
    "not_null": ["CREATE TABLE {t} (id BIGINT NOT NULL, s STRING, d DATE) USING delta", FILL],
    "partitioned": [f"CREATE TABLE {{t}} {COLUMNS} USING delta PARTITIONED BY (s)", FILL],
    "checkpointed": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(checkpointInterval="2"), FILL, FILL, FILL],
    "no_statistics": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(dataSkippingNumIndexedCols="0"), FILL],
    "statistics_of_one_column": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(dataSkippingStatsColumns="s"), FILL],
    "row_tracking": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(enableRowTracking="true"), FILL],
    "row_tracking_turned_on_later": [f"CREATE TABLE {{t}} {COLUMNS} USING delta", FILL, "ALTER TABLE {t} SET" + properties(enableRowTracking="true"), FILL],
    "in_commit_timestamps": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(enableInCommitTimestamps="true"), FILL],
    "in_commit_timestamps_turned_on_later": [f"CREATE TABLE {{t}} {COLUMNS} USING delta", FILL, "ALTER TABLE {t} SET" + properties(enableInCommitTimestamps="true"), FILL],
    "domain_metadata": [f"CREATE TABLE {{t}} {COLUMNS} USING delta TBLPROPERTIES ('delta.feature.domainMetadata' = 'supported')", FILL],
    "more_columns": ["CREATE TABLE {t} (id BIGINT, extra STRUCT<a: INT>, s STRING, d DATE, more ARRAY<INT>) USING delta",
                     "INSERT INTO {t} VALUES (1, named_struct('a', 1), 'x', NULL, array(1))"],
}


@pytest.mark.parametrize("name", sorted(WRITABLE))
def test_append(name, lake, spark):
    table = make(spark, lake, *WRITABLE[name])
    before = readers.rows("spark", table)
    protocol, metadata = delta_log.newest(table, "protocol"), delta_log.newest(table, "metaData")
    added = rows_of_ours(100)
    target.load({"destination": lake}, [SCHEMA, *added, target.state({"at": 1})]).ok()
    expected = before + target.expected_rows([m["record"] for m in added], table)
    # deltalake, and so Polars, refuse this feature
    readers.compare(table, expected, engines=("spark", "duckdb", "chdb") if name == "vacuum_protocol_check" else readers.ALL)
    if "row_tracking" in name:
        row_ids(table)
    assert delta_log.newest(table, "protocol") == protocol
    assert delta_log.newest(table, "metaData") == metadata
    assert delta_log.commits(table)[-1][0]["commitInfo"]["isBlindAppend"] is True
    if name == "no_statistics":
        assert all("minValues" not in delta_log.statistics(a) or not delta_log.statistics(a)["minValues"] for a in delta_log.live_adds(table))
    if name == "statistics_of_one_column":
        assert delta_log.columns_with_bounds(table) == [("s",)]


def row_ids(table, key="id"):
    """Row ids as Spark reads them: key → (row id, version of its last change)."""
    rows = readers.sql(f"SELECT {key}, _metadata.row_id AS row_id, _metadata.row_commit_version AS version FROM delta.`{table}`")
    ids = [row.row_id for row in rows]
    assert None not in ids and len(set(ids)) == len(ids), sorted(ids)
    return {getattr(row, key): (row.row_id, row.version) for row in rows}


@pytest.mark.parametrize("made_by", ["spark", "us"])
def test_row_ids_stay_unique_and_stable_between_writers(made_by, lake, spark):
    """Appends of ours between appends, merges, updates and compactions of Spark: no id twice, and a row keeps its own."""
    config = {"destination": lake, "table_properties": {"delta.enableRowTracking": "true"}}
    if made_by == "spark":
        table = make(spark, lake, f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(enableRowTracking="true"), FILL)
        config = {"destination": lake}
    else:
        table = os.path.join(lake, "t")
        target.load(config, [SCHEMA, *rows_of_ours(0, 10), target.state({"at": 0})]).ok()
    before = row_ids(table)
    assert set(before) == set(range(10))
    for turn in range(3):
        first = 100 * (turn + 1)
        target.load(config, [SCHEMA, *rows_of_ours(first, 5), target.state({"at": turn})]).ok()
        version = delta_log.version(table)
        after = row_ids(table)
        assert {key: after[key] for key in before} == before, "our append moved no id"
        assert all(after[key][1] == version for key in range(first, first + 5))
        readers.sql(f"MERGE INTO delta.`{table}` t USING (SELECT {first}L AS id UNION ALL SELECT {first + 50}L) u ON t.id = u.id "
                    "WHEN MATCHED THEN UPDATE SET s = 'merged' WHEN NOT MATCHED THEN INSERT (id, s, d) VALUES (u.id, 'new', NULL)")
        readers.sql(f"INSERT INTO delta.`{table}` VALUES ({first + 60}, 'spark', NULL)")
        if turn == 1:
            readers.sql(f"OPTIMIZE delta.`{table}`")
        merged = row_ids(table)
        assert {key: row for key, (row, _) in merged.items() if key in after} == {key: row for key, (row, _) in after.items()}
        before = merged
    assert len(before) == 10 + 3 * 7
    readers.compare(table, engines=("spark", "duckdb", "chdb"))
    preserved = [actions[0]["commitInfo"].get("tags", {}) for actions in delta_log.commits(table) if "delta-load" in actions[0]["commitInfo"].get("engineInfo", "")]
    assert preserved and all(tags["delta.rowTracking.preserved"] == "true" for tags in preserved)


def timestamps(table):
    """The in-commit timestamps of the versions that have one, in order."""
    found = [(n, actions[0]["commitInfo"].get("inCommitTimestamp")) for n, actions in enumerate(delta_log.commits(table))]
    return [(n, at) for n, at in found if at is not None]


@pytest.mark.parametrize("made_by", ["spark", "us", "spark, turned on later"])
def test_in_commit_timestamps_grow_between_writers(made_by, lake, spark):
    config = {"destination": lake}
    on = properties(enableInCommitTimestamps="true")
    if made_by == "us":
        config["table_properties"] = {"delta.enableInCommitTimestamps": "true"}
        target.load(config, [SCHEMA, *rows_of_ours(0, 10), target.state({"at": 0})]).ok()
        table = os.path.join(lake, "t")
    elif made_by == "spark":
        table = make(spark, lake, f"CREATE TABLE {{t}} {COLUMNS} USING delta" + on, FILL)
    else:
        table = make(spark, lake, f"CREATE TABLE {{t}} {COLUMNS} USING delta", FILL)
        target.load(config, [SCHEMA, *rows_of_ours(50), target.state({"at": 0})]).ok()
        readers.sql(f"ALTER TABLE delta.`{table}` SET" + on)
    metadata = delta_log.newest(table, "metaData")
    for turn in range(12):
        target.load(config, [SCHEMA, *rows_of_ours(100 * (turn + 1)), target.state({"at": turn})]).ok()
        if turn % 3 == 0:
            readers.sql(f"INSERT INTO delta.`{table}` VALUES ({turn}, 'spark', NULL)")
    assert delta_log.newest(table, "metaData") == metadata, "where they began is the table's own"
    seen = timestamps(table)
    assert [n for n, _ in seen] == list(range(seen[0][0], delta_log.version(table) + 1)), seen
    assert all(one < other for (_, one), (_, other) in zip(seen, seen[1:])), seen
    # Spark's history goes by them, and so does a read as of a time
    history = {row.version: row.timestamp for row in readers.sql(f"DESCRIBE HISTORY delta.`{table}`")}
    for n, at in seen:
        assert round(history[n].timestamp() * 1000) == at, (n, at, history[n])
    readers.compare(table, engines=("spark", "duckdb", "chdb"))


def test_timestamp_ntz(lake, spark):
    table = make(spark, lake, "CREATE TABLE {t} (id BIGINT, at TIMESTAMP_NTZ) USING delta", "INSERT INTO {t} VALUES (1, TIMESTAMP_NTZ'1965-01-01 00:00:00.000001')")
    stream = target.schema("t", {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}, ["id"])
    target.load({"destination": lake, "naive_timestamps": "ntz"}, [stream, target.record("t", {"id": 2, "at": "2026-01-02T03:04:05.123456"})]).ok()
    readers.compare(table, [{"id": 1, "at": "1965-01-01T00:00:00.000001"}, {"id": 2, "at": "2026-01-02T03:04:05.123456"}])


NARROW = """CREATE TABLE {t} (id BIGINT, i8 TINYINT, i16 SMALLINT, i32 INT, f32 FLOAT, d5 DECIMAL(5,2), d18 DECIMAL(18,0), day DATE,
            c CHAR(4), v VARCHAR(3), n STRUCT<a: INT, l: ARRAY<SMALLINT>>) USING delta"""
WIDE = target.schema("t", {
    **{name: {"type": ["null", "integer"]} for name in ("id", "i8", "i16", "i32", "d18")},
    "f32": {"type": ["null", "number"]},
    # a plain number is a double, of another family than the decimals: it would have a column of its own
    "d5": {"type": ["null", "number"], "multipleOf": 0.01},
    "day": {"type": ["null", "string"], "format": "date"},
    **{name: {"type": ["null", "string"]} for name in ("c", "v")},
    "n": {"type": ["null", "object"], "properties": {"a": {"type": "integer"}, "l": {"type": "array", "items": {"type": "integer"}}}},
}, ["id"])


def test_narrower_columns_take_what_fits(lake, spark):
    table = make(spark, lake, NARROW, "INSERT INTO {t} (id, i8, c) VALUES (1, 1, 'ab')")
    values = {"id": 2, "i8": -128, "i16": 32767, "i32": -2147483648, "f32": 1.5, "d5": 123.45, "d18": 999999999999999999, "day": "1960-02-29",
              "c": "wxyz", "v": "é漢🎉", "n": {"a": 7, "l": [1, -2]}}
    target.load({"destination": lake}, [WIDE, target.record("t", values), target.record("t", {"id": 3}), target.state({"at": 3})]).ok()
    rows = {row["id"]: row for row in readers.compare(table)}
    assert rows[2] == {**values, "f32": "1.5", "d5": "123.45", "d18": "999999999999999999"}
    assert set(rows) == {1, 2, 3} and rows[3]["i8"] is None
    types = readers.delta_types(table)
    assert (types["i8"], types["i16"], types["i32"], types["f32"], types["d5"], types["d18"], types["day"]) == (
        "tinyint", "smallint", "int", "float", "decimal(5,2)", "decimal(18,0)", "date")


@pytest.mark.parametrize("column, value, variant, kept", [
    ("i8", 128, "i8__long", 128),
    ("i32", 3_000_000_000, "i32__long", 3_000_000_000),
    ("v", "four", "v__string", "four"),
])
def test_what_does_not_fit_goes_to_a_variant_column(column, value, variant, kept, lake, spark):
    table = make(spark, lake, NARROW, "INSERT INTO {t} (id, i8, c) VALUES (1, 1, 'ab')")
    result = target.load({"destination": lake}, [WIDE, target.record("t", {"id": 2, column: value}), target.record("t", {"id": 3, "i8": 3})]).ok()
    rows = {row["id"]: row for row in readers.compare(table)}
    assert rows[2][variant] == kept and rows[2][column] is None
    assert rows[3]["i8"] == 3 and rows[1][variant] is None
    assert column in result.stderr


def test_a_null_for_a_not_null_column_is_refused(lake, spark):
    table = make(spark, lake, "CREATE TABLE {t} (id BIGINT NOT NULL, s STRING NOT NULL, d DATE) USING delta", FILL)
    before = readers.rows("duckdb", table)
    bad = target.record("t", {"id": 100, "s": None})
    result = target.load({"destination": lake}, [SCHEMA, *rows_of_ours(50), target.state({"at": 1}), bad, target.state({"at": 2})]).refused("s", "null", codes=(1,))
    assert result.states[-1] == {"at": 1}
    readers.compare(table, before + target.expected_rows([m["record"] for m in rows_of_ours(50)], table), engines=("duckdb", "spark"))


def test_spark_writes_between_our_loads(lake, spark):
    table = make(spark, lake, f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(enableDeletionVectors="true"))
    expected = {}
    for turn in range(4):
        ours = rows_of_ours(turn * 10)
        target.load({"destination": lake}, [SCHEMA, *ours, target.state({"at": turn})]).ok()
        expected.update({m["record"]["id"]: m["record"] for m in ours})
        readers.sql(f"INSERT INTO delta.`{table}` VALUES ({1000 + turn}, 'spark', DATE'2026-01-01')")
        expected[1000 + turn] = {"id": 1000 + turn, "s": "spark", "d": "2026-01-01"}
        readers.sql(f"UPDATE delta.`{table}` SET s = 'updated' WHERE id = {turn * 10}")
        expected[turn * 10] = {**expected[turn * 10], "s": "updated"}
        readers.sql(f"DELETE FROM delta.`{table}` WHERE id = {turn * 10 + 1}")
        del expected[turn * 10 + 1]
    readers.compare(table, target.expected_rows(list(expected.values()), table))
    readers.sql(f"OPTIMIZE delta.`{table}`")
    target.load({"destination": lake}, [SCHEMA, *rows_of_ours(500)]).ok()
    expected.update({m["record"]["id"]: m["record"] for m in rows_of_ours(500)})
    readers.compare(table, target.expected_rows(list(expected.values()), table))


def test_a_table_of_ours_goes_on_in_spark(lake, spark):
    """Spark appends, merges, deletes, optimises and restores on a table that the target made."""
    target.load({"destination": lake}, [SCHEMA, *rows_of_ours(0, 20), target.state({"at": 1})]).ok()
    table = os.path.join(lake, "t")
    first = delta_log.version(table)
    readers.sql(f"MERGE INTO delta.`{table}` t USING (SELECT 1L AS id UNION ALL SELECT 900L) u ON t.id = u.id "
                "WHEN MATCHED THEN UPDATE SET s = 'merged' WHEN NOT MATCHED THEN INSERT (id, s, d) VALUES (u.id, 'new', NULL)")
    readers.sql(f"DELETE FROM delta.`{table}` WHERE id = 2")
    readers.sql(f"OPTIMIZE delta.`{table}` ZORDER BY (id)")
    target.load({"destination": lake}, [SCHEMA, *rows_of_ours(30, 5), target.state({"at": 2})]).ok()
    rows = {row["id"]: row for row in readers.compare(table)}
    assert len(rows) == 25 and rows[1]["s"] == "merged" and rows[900]["s"] == "new" and 2 not in rows
    history = readers.sql(f"DESCRIBE HISTORY delta.`{table}`")
    assert {row.operation for row in history} >= {"MERGE", "DELETE", "OPTIMIZE", "WRITE"} or "STREAMING UPDATE" in {row.operation for row in history}
    readers.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF {first}")
    readers.compare(table, target.expected_rows([m["record"] for m in rows_of_ours(0, 20)], table))


def test_eleven_commits_make_a_checkpoint_that_others_read(lake, spark):
    rows = []
    for turn in range(11):
        added = rows_of_ours(turn * 10)
        target.load({"destination": lake}, [SCHEMA, *added]).ok()
        rows += [m["record"] for m in added]
    table = os.path.join(lake, "t")
    log = os.listdir(os.path.join(table, "_delta_log"))
    assert any(".checkpoint" in name and name.endswith(".parquet") for name in log) and "_last_checkpoint" in log, log
    expected = target.expected_rows(rows, table)
    # readers are made to rest on the checkpoint: the commits before it go
    checkpoint = max(int(name[:20]) for name in log if ".checkpoint" in name and name[:20].isdigit())
    for name in delta_log.commit_files(table):
        if int(os.path.basename(name)[:20]) < checkpoint:
            os.remove(name)
    for engine in readers.ALL:
        readers.assert_same_rows(readers.rows(engine, table), expected, f"{table} in {engine}")


REFUSED = {
    # feature as the error must name it: how Spark makes such a table
    "columnMapping": [f"CREATE TABLE {{t}} {COLUMNS} USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", FILL],
    "changeDataFeed": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(enableChangeDataFeed="true", enableDeletionVectors="true"), FILL],
    "checkConstraints": [f"CREATE TABLE {{t}} {COLUMNS} USING delta", "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id >= 0)", FILL],
    "generatedColumns": ["CREATE TABLE {t} (id BIGINT, s STRING, d DATE, y INT GENERATED ALWAYS AS (YEAR(d))) USING delta", "INSERT INTO {t} (id, s, d) VALUES (1, 'x', DATE'2026-01-01')"],
    "identityColumns": ["CREATE TABLE {t} (n BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT, s STRING, d DATE) USING delta", "INSERT INTO {t} (id, s) VALUES (1, 'x')"],
    "clustering": [f"CREATE TABLE {{t}} {COLUMNS} USING delta CLUSTER BY (id)", FILL],
    "v2Checkpoint": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(checkpointPolicy="v2"), FILL],
    "typeWidening": ["CREATE TABLE {t} (id INT, s STRING, d DATE) USING delta" + properties(enableTypeWidening="true"), "INSERT INTO {t} VALUES (1, 'x', NULL)", "ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT"],
    "allowColumnDefaults": ["CREATE TABLE {t} (id BIGINT, s STRING DEFAULT 'none', d DATE) USING delta TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')", "INSERT INTO {t} (id) VALUES (1)"],
    "variantType": ["CREATE TABLE {t} (id BIGINT, s STRING, d DATE, v VARIANT) USING delta", "INSERT INTO {t} VALUES (1, 'x', NULL, parse_json('{\"a\":1}'))"],
    "icebergCompatV2": [f"CREATE TABLE {{t}} {COLUMNS} USING delta TBLPROPERTIES ('delta.enableIcebergCompatV2' = 'true', 'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'false')", FILL],
    "checkpointProtection": [f"CREATE TABLE {{t}} {COLUMNS} USING delta" + properties(enableDeletionVectors="true"), FILL, "DELETE FROM {t} WHERE id = 1", "ALTER TABLE {t} DROP FEATURE deletionVectors"],
}


@pytest.mark.parametrize("feature", sorted(REFUSED))
def test_refused_by_name_and_left_alone(feature, lake, spark):
    table = make(spark, lake, *REFUSED[feature])
    before = delta_log.fingerprint(lake)
    result = target.load({"destination": lake}, [SCHEMA, *rows_of_ours(100), target.state({"at": 1})]).refused(feature, table, codes=(1,))
    assert result.states == []
    assert delta_log.fingerprint(lake) == before
