"""Many processes on one table, in a bucket and in a folder: no gap, no duplicate, no failure; and all of them creating it at once.

DELTA_LOAD_S3_PROCESSES, DELTA_LOAD_S3_COMMITS   16 and 5; the issue's figure is 16 and 50
"""
import collections
import os
import re

import places
import pytest
import seaweedfs
import target
import writers

PROCESSES = int(os.environ.get("DELTA_LOAD_S3_PROCESSES", 16))
COMMITS = int(os.environ.get("DELTA_LOAD_S3_COMMITS", 5))


@pytest.fixture(scope="module", params=["s3", "local"])
def place(request, tmp_path_factory):
    if request.param == "local":
        yield places.Folder(tmp_path_factory.mktemp("lake"))
        return
    server = seaweedfs.Server()
    try:
        server.wait(places.BUCKET)
        yield places.Bucket(server)
    finally:
        server.stop()


def test_many_processes_on_one_table(place):
    """All create the table at once, and commit to it again and again."""
    settings = place.settings("many")
    outcomes, seconds = writers.run(lambda who: writers.Ours(settings, who), PROCESSES, COMMITS)
    errors = [error for outcome in outcomes for error in outcome.errors]
    assert not errors, errors[0]
    log = place.commits("many/t")
    writers.assert_log_is_whole(log, PROCESSES * COMMITS)
    for engine in ("duckdb", "deltalake"):
        compared = writers.Compared(outcomes, place.read("many/t", engine), log)
        compared.assert_right()
        assert compared.acknowledged == PROCESSES * COMMITS
    longest = max(second for outcome in outcomes for second in outcome.seconds)
    print(f"{place.name}: {PROCESSES} × {COMMITS} commits in {seconds:.1f} s, {PROCESSES * COMMITS / seconds:.1f} a second, longest wait {longest:.1f} s")


def different(number):
    """A schema unlike those of the other writers: a column of its own, and `x` as one of four types."""
    kinds = [("integer", 7), ("string", "seven"), ("boolean", True), ("number", 7.5)]
    kind, value = kinds[number % len(kinds)]
    schema = {"who": {"type": "string"}, f"own_{number}": {"type": "integer"}, "x": {"type": kind}}
    return schema, {"who": f"writer {number}", f"own_{number}": number, "x": value}, value


def test_a_table_created_at_once_with_different_schemas(place):
    """One wins; the others add their columns to its table, or are refused with both schemas named and leave nothing."""
    # All have seen that there is no table before the first of them commits: the STATE comes last.
    config = place.settings("races")
    started = []
    for number in range(PROCESSES):
        schema, record, _ = different(number)
        writer = writers.Ours(config, f"writer {number}")
        writer.process.stdin.write(target.as_input([target.schema("t", schema), target.record("t", record)]))
        writer.process.stdin.flush()
        started.append(writer)
    for writer in started:
        writer.process.stdin.write(target.as_input([target.state({"batch": 0})]))
        writer.process.stdin.flush()
    said = [writer.end() for writer in started]
    codes = [writer.process.returncode for writer in started]
    log = place.commits("races/t")
    writers.assert_log_is_whole(log, codes.count(0))
    rows = collections.defaultdict(list)
    for row in place.read("races/t", "duckdb").to_pylist():
        rows[row["who"]].append(row)
    refused = 0
    for number, (code, text) in enumerate(zip(codes, said)):
        _, record, value = different(number)
        found = rows.pop(f"writer {number}", [])
        if code == 0:
            assert len(found) == 1, (number, found, text)
            assert found[0][f"own_{number}"] == number
            # in `x` where it has that type, else in the column that stands beside it for the type
            stored = [v for name, v in found[0].items() if name == "x" or name.startswith("x__")]
            assert [v for v in stored if v is not None and str(v) in (str(value), str(value).lower(), str(float(value)) if not isinstance(value, str) else value)], (number, found)
        else:
            refused += 1
            assert not found, f"writer {number} was refused, but its row is there: {text}"
            assert code in (1, 75) and "panicked" not in text, text
            named = re.search(r"\(files: (.*); table: (.*)\)", text)
            assert named and f"own_{number} long" in named[1] and "x " in named[2] and named[1] != named[2], f"both schemas should be named:\n{text}"
    assert not rows
    assert codes.count(0) >= 1
    print(f"{place.name}: {codes.count(0)} wrote, {refused} refused")
