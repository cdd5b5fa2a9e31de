"""Real Meltano: all of the 2013 flights through tap-jsonl, and runs that go on from the stored state.

tap-jsonl 0.3.1 writes a position per file but sends every file again (it looks for its position under another name
than the SDK stores it), so the runs that resume use tap_numbers.py, a tap on the same SDK.
"""
import datetime
import json
import os
import subprocess
import sys

import delta_log
import flights
import pyarrow.compute as pc
import pytest
import readers
import target

ENVIRONMENTS = os.path.dirname(sys.prefix)
PROJECT = """
default_environment: dev
environments: [{{name: dev}}]
plugins:
  extractors:
    - name: tap-jsonl
      namespace: tap_jsonl
      executable: {tap}
      capabilities: [catalog, discover, state]
      settings:
        - {{name: path}}
        - {{name: stream_name}}
      config:
        path: {root}/in/*.jsonl
        stream_name: flights
    - name: tap-numbers
      namespace: tap_numbers
      executable: {root}/tap-numbers
      capabilities: [catalog, discover, state]
      settings:
        - {{name: last, kind: integer}}
        - {{name: bad, kind: integer}}
  loaders:
    - name: target-delta
      namespace: target_delta
      executable: {binary}
      capabilities: [{capabilities}]
      settings:
        - {{name: destination}}
        - {{name: streams, kind: object}}
        - {{name: add_record_metadata, kind: boolean}}
        - {{name: target_file_bytes, kind: integer}}
      config:
        destination: {root}/lake
        streams:
          flights:
            partition_by: [origin]
"""


def about():
    return json.loads(subprocess.run([target.binary(), "--about", "--format=json"], capture_output=True, check=True, text=True).stdout)


def test_about_is_what_hub_tooling_parses():
    said = about()
    assert set(said) >= {"name", "description", "version", "sdk_version", "supported_python_versions", "capabilities", "settings"}
    assert {"about", "target-schema", "validate-records"} <= set(said["capabilities"])
    settings = said["settings"]
    assert settings["type"] == "object"
    assert "destination" in settings["required"]
    for name, setting in settings["properties"].items():
        assert setting["description"], name
        assert isinstance(setting["type"], list), name
    assert settings["properties"]["load_method"]["default"] == "append-only"
    spaced = subprocess.run([target.binary(), "--about", "--format", "json"], capture_output=True, check=True, text=True).stdout
    assert json.loads(spaced) == said


class Project:
    def __init__(self, root):
        self.root = str(root)
        os.makedirs(os.path.join(self.root, "in"))
        with open(os.path.join(self.root, "meltano.yml"), "w", encoding="utf-8") as f:
            f.write(PROJECT.format(root=self.root, binary=target.binary(), tap=os.path.join(ENVIRONMENTS, "tap", "bin", "tap-jsonl"),
                                   capabilities=", ".join(about()["capabilities"])))
        self.table = os.path.join(self.root, "lake", "flights")
        tap = os.path.join(self.root, "tap-numbers")
        with open(tap, "w", encoding="utf-8") as f:
            f.write(f'#!/bin/sh\nexec "{sys.executable}" "{os.path.join(os.path.dirname(__file__), "tap_numbers.py")}" "$@"\n')
        os.chmod(tap, 0o755)

    def run(self, tap, code=0, **env):
        return self.meltano("run", tap, "target-delta", code=code, **env)

    def meltano(self, *words, code=0, **env):
        done = subprocess.run([os.path.join(ENVIRONMENTS, "meltano", "bin", "meltano"), *words], cwd=self.root, capture_output=True, text=True,
                              timeout=900, env=target.clean_environment(MELTANO_SEND_ANONYMOUS_USAGE_STATS="false", NO_COLOR="1", **env))
        assert done.returncode == code, f"meltano {' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
        return done

    def state(self, tap):
        out = self.meltano("state", "get", f"dev:{tap}-to-target-delta").stdout
        return json.loads(out.strip().splitlines()[-1])["singer_state"]

    def write(self, name, rows, modified):
        path = os.path.join(self.root, "in", name)
        flights.write_jsonl(rows, path)
        os.utime(path, (modified, modified))


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def position(modified):
    return datetime.datetime.fromtimestamp(modified, readers.UTC).isoformat()


def test_all_flights(project, spark):
    source = flights.table()
    first_half = pc.less_equal(source.column("month"), 6)
    project.write("a.jsonl", source.filter(first_half), 1_700_000_000)
    project.write("b.jsonl", source.filter(pc.invert(first_half)), 1_700_000_100)
    # a setting from the environment, beside those of meltano.yml
    project.run("tap-jsonl", TARGET_DELTA_TARGET_FILE_BYTES="1000000")

    assert delta_log.partition_columns(project.table) == ["origin"]
    types = readers.delta_types(project.table)
    assert {types[name] for name in flights.TEXT} == {"string"} and types["time_hour"] == "timestamp", types
    assert {types[name] for name in flights.COLUMNS if name not in flights.TEXT + ("time_hour",)} == {"bigint"}, types
    readers.compare_large(project.table, source)
    adds = delta_log.live_adds(project.table)
    assert {a["partitionValues"]["origin"] for a in adds} == {"EWR", "JFK", "LGA"}
    assert max(a["size"] for a in adds) < 3_000_000
    partitions = project.state("tap-jsonl")["bookmarks"]["flights"]["partitions"]
    assert {os.path.basename(p["context"]["_sdc_filename"]): p["replication_key_value"] for p in partitions} == {
        "a.jsonl": position(1_700_000_000), "b.jsonl": position(1_700_000_100)}


def numbers(project):
    return sorted(row["id"] for row in readers.rows("duckdb", os.path.join(project.root, "lake", "numbers")))


def bookmark(project):
    return project.state("tap-numbers")["bookmarks"]["numbers"]["replication_key_value"]


def test_a_second_run_goes_on_from_the_stored_state(project, spark):
    project.run("tap-numbers", TAP_NUMBERS_LAST="1000")
    assert bookmark(project) == 1000 and numbers(project) == list(range(1, 1001))
    project.run("tap-numbers", TAP_NUMBERS_LAST="1500")
    assert bookmark(project) == 1500 and numbers(project) == list(range(1, 1501))

    # nothing new: nothing is added, the state stays
    table = os.path.join(project.root, "lake", "numbers")
    before = delta_log.live_adds(table)
    project.run("tap-numbers", TAP_NUMBERS_LAST="1500")
    assert delta_log.live_adds(table) == before
    assert bookmark(project) == 1500
    readers.compare(table, target.expected_rows(
        [{"id": i, "value": i / 8, "at": f"2026-01-{i % 28 + 1:02d}T00:00:00Z"} for i in range(1, 1501)], table))


def test_after_a_failed_run_the_next_goes_on_where_rows_are_missing(project):
    failed = project.run("tap-numbers", code=1, TAP_NUMBERS_LAST="1000", TAP_NUMBERS_BAD="777")
    assert "12,5" in failed.stdout + failed.stderr
    # all up to the last STATE before the bad row is in the table, and Meltano has that STATE
    there = bookmark(project)
    assert 600 <= there < 777
    assert numbers(project) == list(range(1, there + 1))
    project.run("tap-numbers", TAP_NUMBERS_LAST="1000")
    assert numbers(project) == list(range(1, 1001))
    assert bookmark(project) == 1000


def test_settings_from_the_environment_reach_the_target(project):
    project.write("a.jsonl", flights.table().slice(0, 50), 1_700_000_000)
    project.run("tap-jsonl", TARGET_DELTA_ADD_RECORD_METADATA="true")
    assert {"_sdc_extracted_at", "_sdc_received_at", "_sdc_batched_at", "_sdc_sequence"} <= set(readers.delta_types(project.table))
    assert len(readers.rows("duckdb", project.table)) == 50


def test_a_setting_that_does_not_exist_stops_the_run(project):
    path = os.path.join(project.root, "meltano.yml")
    text = open(path, encoding="utf-8").read().replace("        - {name: destination}\n", "        - {name: destination}\n        - {name: compresion}\n", 1)
    text = text.replace("      config:\n        destination", "      config:\n        compresion: zstd\n        destination")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    project.write("a.jsonl", flights.table().slice(0, 5), 1_700_000_000)
    failed = project.run("tap-jsonl", code=1)
    assert "compresion" in failed.stderr and "compression" in failed.stderr
    assert not os.path.exists(project.table)
