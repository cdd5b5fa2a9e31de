"""The Meltano SDK's own test streams for targets (`singer_sdk.testing`), each through the binary and read back."""
import importlib.resources
import json
import os

import delta_log
import pytest
import readers
import target

STREAMS = importlib.resources.files("singer_sdk.testing.target_test_streams")
FILES = sorted(f.name.removesuffix(".singer") for f in STREAMS.iterdir() if f.name.endswith(".singer"))
MUST_FAIL = {
    "invalid_schema": ("properties",),
    "record_before_schema": ("test_record_before_schema", "schema", "line 1"),
    "record_missing_key_property": ("id", "line 2"),
}
# the rooms of `table_path` escape what a path part may not hold
FOLDERS = {"test:SpecialChars!in?attributes": "test~3aSpecialChars!in~3fattributes"}


def messages(name):
    text = STREAMS.joinpath(f"{name}.singer").read_text(encoding="utf-8")
    return text, [json.loads(line) for line in text.splitlines() if line.strip()]


def by_stream(parsed):
    """Per stream: the names of its columns over all schemas, and its records in order."""
    columns, records = {}, {}
    for m in parsed:
        if m["type"] == "SCHEMA":
            columns.setdefault(m["stream"], {}).update(m["schema"].get("properties", {}))
        elif m["type"] == "RECORD":
            row = dict(m["record"])
            if "version" in m:
                row["_sdc_table_version"] = m["version"]
            records.setdefault(m["stream"], []).append(row)
    return columns, records


def test_the_suite_is_the_one_that_was_read():
    assert len(FILES) >= 20, FILES
    assert set(MUST_FAIL) <= set(FILES)


@pytest.mark.parametrize("name", [f for f in FILES if f not in MUST_FAIL])
def test_loads(name, lake, spark):
    text, parsed = messages(name)
    result = target.load({"destination": lake}, text).ok()
    columns, records = by_stream(parsed)
    for stream in columns:
        table = os.path.join(lake, FOLDERS.get(stream, stream))
        rows = records.get(stream, [])
        names = set(columns[stream]) | {k for r in rows for k in r}
        assert {f["name"] for f in delta_log.schema(table)["fields"]} == names
        readers.compare(table, target.expected_rows(rows, table))
    states = [m["value"] for m in parsed if m["type"] == "STATE" and m["value"]]
    assert result.states[-1:] == states[-1:]
    assert all(s in states for s in result.states)


@pytest.mark.parametrize("name", sorted(MUST_FAIL))
def test_fails(name, lake):
    text, _ = messages(name)
    result = target.load({"destination": lake}, text).refused(*MUST_FAIL[name], codes=(1,))
    assert result.states == []
    for folder in os.listdir(lake) if os.path.isdir(lake) else []:
        assert delta_log.live_adds(os.path.join(lake, folder)) == []


def test_a_missing_required_property_fails_only_when_records_are_validated(lake):
    text, _ = messages("record_missing_required_property")
    target.load({"destination": lake, "validate_records": True}, text).refused("id", "required", codes=(1,))


def test_types_are_those_of_the_contract(lake):
    text, _ = messages("schema_updates")
    target.load({"destination": lake}, text).ok()
    assert readers.delta_types(os.path.join(lake, "test_schema_updates")) == {
        "id": "bigint", "a1": "double", "a2": "string", "a3": "boolean",
        "a4": "struct<id:bigint,value:bigint>", "a5": "array<string>", "a6": "bigint",
    }
    text, _ = messages("camelcase_complex_schema")
    target.load({"destination": lake}, text).ok()
    types = readers.delta_types(os.path.join(lake, "ForecastingTypeToCategory"))
    assert types["CreatedDate"] == types["SystemModstamp"] == "timestamp"
    text, _ = messages("schema_no_properties")
    target.load({"destination": lake}, text).ok()
    assert readers.delta_types(os.path.join(lake, "test_object_schema_no_properties")) == {"object_store": "string"}


def test_both_loads_of_the_user_locations_stay(lake, spark):
    """append-only: the second file's rows stand beside the first's, keys or not, and one line says so."""
    for name in ("user_location_data", "user_location_upsert_data"):
        result = target.load({"destination": lake}, messages(name)[0]).ok()
    expected = [m["record"] for n in ("user_location_data", "user_location_upsert_data") for m in messages(n)[1]
                if m["type"] == "RECORD" and m["stream"] == "test_users"]
    table = os.path.join(lake, "test_users")
    readers.compare(table, target.expected_rows(expected, table))
    assert "append" in result.stderr


@pytest.mark.parametrize("method", ["upsert", "history"])
def test_load_methods_to_come_are_refused_by_name(method, lake):
    """None of the suite's files needs them with the default settings; asked for, they are refused, not half done."""
    result = target.load({"destination": lake, "load_method": method}, messages("user_location_upsert_data")[0])
    result.refused("load_method", method, codes=(1, 2))
    assert result.states == []
    assert not os.path.exists(lake) or not os.listdir(lake)


def test_activate_version_is_refused_by_name(lake):
    stream = [
        target.schema("orders", {"id": {"type": "integer"}}, ["id"]),
        target.record("orders", {"id": 1}, version=1700000000000),
        {"type": "ACTIVATE_VERSION", "stream": "orders", "version": 1700000000000},
        target.state({"orders": 1}),
    ]
    result = target.load({"destination": lake}, stream).refused("ACTIVATE_VERSION", "orders", codes=(1, 2))
    assert result.states == []
