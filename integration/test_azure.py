"""Tables in a container of Azurite: loads, independent readers, many processes, credentials."""
import collections
import decimal
import json
import os
import re
import subprocess
import tempfile

import azurite
import pyarrow as pa
import pytest
import readers
import target

CONTAINER = "lake"
SCHEMA = {"id": {"type": "integer"}, "who": {"type": "string"}, "at": {"type": "string", "format": "date-time"},
          "amount": {"type": "number", "multipleOf": 0.01}, "tags": {"type": "array", "items": {"type": "string"}}}
TYPES = {"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "amount": pa.decimal128(38, 2)}


@pytest.fixture(scope="module")
def azure():
    server = azurite.Server()
    try:
        server.wait(CONTAINER)
        yield server
    finally:
        server.stop()


def rows(first, count, who="one"):
    return [{"id": i, "who": who, "at": f"2026-01-02T03:04:{i % 60:02d}Z", "amount": i / 100, "tags": [who, str(i)]}
            for i in range(first, first + count)]


def messages(stream, records, state):
    return [target.schema(stream, SCHEMA), *(target.record(stream, r) for r in records), target.state(state)]


def config(azure, root, **more):
    return {"destination": f"az://{CONTAINER}/{root}", "storage_options": azure.options(), **more}


def versions(azure, table):
    """The commits of the log: version → actions."""
    out = {}
    for name in azure.names(CONTAINER, f"{table}/_delta_log/"):
        if match := re.fullmatch(r"(\d{20})\.json", name.rsplit("/", 1)[1]):
            out[int(match[1])] = [json.loads(line) for line in azure.read(CONTAINER, name).decode().splitlines()]
    return out


def read_deltalake(azure, table):
    import deltalake

    found = deltalake.DeltaTable(f"az://{CONTAINER}/{table}", storage_options=azure.options())
    return pa.table(found.to_pyarrow_table())


def read_polars(azure, table):
    import polars

    return polars.read_delta(f"az://{CONTAINER}/{table}", storage_options=azure.options()).to_arrow()


def read_duckdb(azure, table):
    connection = readers.duckdb().cursor()
    from duckdb_extensions import import_extension

    import_extension("azure")
    connection.execute("LOAD azure")
    # Its delta extension reads the log by object_store, which takes the emulator's address from here.
    os.environ["AZURITE_BLOB_STORAGE_URL"] = azure.service.rsplit("/", 1)[0]
    connection.execute("CREATE OR REPLACE SECRET az (TYPE azure, CONNECTION_STRING "
                       f"'{azure.connection_string()}')")
    return connection.execute(f"SELECT * FROM delta_scan('az://{CONTAINER}/{table}')").to_arrow_table()


def in_plain(table):
    found = []
    for row in table.to_pylist():
        assert isinstance(row["amount"], decimal.Decimal), row
        found.append((row["id"], row["who"], row["at"].isoformat()[:19], f"{row['amount']:.2f}", tuple(row["tags"])))
    return sorted(found)


def expected(records):
    return sorted((r["id"], r["who"], r["at"][:19], f"{r['amount']:.2f}", tuple(r["tags"])) for r in records)


def check(table, records):
    assert in_plain(table) == expected(records)
    for name, kind in TYPES.items():
        found = table.schema.field(name).type
        assert found == kind or (pa.types.is_timestamp(found) and found.unit == "us" and found.tz is not None), (name, found)


def test_a_load_is_read_by_others(azure):
    records = rows(0, 2_500)
    for start in (0, 1_000, 2_000):
        result = target.load(config(azure, "others"), messages("t", records[start:start + 1_000], {"at": start})).ok()
        assert result.states[-1] == {"at": start}
    for read in (read_deltalake, read_polars):
        check(read(azure, "others/t"), records)
    assert sorted(versions(azure, "others/t")) == [0, 1, 2]


def test_a_load_is_read_by_duckdb(azure):
    records = rows(0, 500)
    target.load(config(azure, "duckdb"), messages("t", records, {})).ok()
    check(read_duckdb(azure, "duckdb/t"), records)


def test_partitions_with_special_characters(azure):
    records = [{**r, "who": who} for who in ("a b", "é=1/2", "50%", "+&?#") for r in rows(0, 50)]
    target.load(config(azure, "é lake/50%", streams={"t": {"partition_by": ["who"]}}), messages("t", records, {})).ok()
    check(read_deltalake(azure, "é lake/50%25/t"), records)


def test_files_of_many_blocks(azure):
    """Rows that compress badly, so that a file is longer than several parts of an upload."""
    noise = [{**r, "who": os.urandom(4_000).hex()} for r in rows(0, 6_000)]
    target.load(config(azure, "large"), messages("t", noise, {})).ok()
    adds = [a["add"] for actions in versions(azure, "large/t").values() for a in actions if "add" in a]
    assert max(add["size"] for add in adds) > 12 << 20
    assert sorted(r["who"] for r in read_deltalake(azure, "large/t").to_pylist()) == sorted(r["who"] for r in noise)


def test_a_load_that_fails_leaves_no_blocks(azure):
    noise = [{**r, "who": os.urandom(4_000).hex()} for r in rows(0, 6_000)]
    lines = messages("t", noise, {})[:-1] + ["no json"]
    target.load(config(azure, "given-up"), lines).refused("not json", codes=(1,))
    assert not [name for name in azure.names(CONTAINER, "given-up/", "uncommittedblobs") if name.endswith(".parquet")]


PROCESSES = int(os.environ.get("DELTA_LOAD_AZURE_PROCESSES", 16))
COMMITS = int(os.environ.get("DELTA_LOAD_AZURE_COMMITS", 5))
ROWS = 20


def test_many_processes_on_one_table(azure):
    """All create the table at once, and commit it again and again: no gap, no duplicate, no failure."""
    with tempfile.TemporaryDirectory() as folder:
        settings = os.path.join(folder, "config.json")
        with open(settings, "w", encoding="utf-8") as f:
            json.dump(config(azure, "many", batch_size_rows=ROWS, state_interval_seconds=1), f)
        # The pipe is fed commit by commit: a stretch is sent when the STATE of the one before has come out.
        writers = [subprocess.Popen([target.binary(), "--config", settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, env=target.clean_environment()) for _ in range(PROCESSES)]
        for at in range(COMMITS):
            for number, writer in enumerate(writers):
                lines = messages("t", rows(at * ROWS, ROWS, who=f"writer {number}"), {"at": at})
                writer.stdin.write(target.as_input(lines if at == 0 else lines[1:]))
                writer.stdin.flush()
            for writer in writers:
                if at + 1 < COMMITS:
                    assert json.loads(writer.stdout.readline()) == {"at": at}, writer.stderr.read()
        ended = [writer.communicate(timeout=300) for writer in writers]
    for writer, (_, stderr) in zip(writers, ended):
        assert writer.returncode == 0, stderr.decode()
    log = versions(azure, "many/t")
    assert sorted(log) == list(range(PROCESSES * COMMITS))
    assert sum("protocol" in action for actions in log.values() for action in actions) == 1
    found = collections.Counter((row["who"], row["id"]) for row in read_deltalake(azure, "many/t").to_pylist())
    want = {(f"writer {number}", i) for number in range(PROCESSES) for i in range(COMMITS * ROWS)}
    assert set(found) == want and set(found.values()) == {1}


def test_deltalake_between_our_commits(azure):
    import deltalake

    target.load(config(azure, "beside"), messages("t", rows(0, 10), {})).ok()
    deltalake.write_deltalake(f"az://{CONTAINER}/beside/t", read_deltalake(azure, "beside/t"), mode="append",
                              storage_options=azure.options())
    target.load(config(azure, "beside"), messages("t", rows(10, 10), {})).ok()
    check(read_deltalake(azure, "beside/t"), rows(0, 10) * 2 + rows(10, 10))


def credentials(azure):
    return {
        "key": {"destination": f"abfss://{CONTAINER}@{azurite.ACCOUNT}.dfs.core.windows.net/credentials",
                "storage_options": azure.options()},
        "sas": {"destination": f"az://{CONTAINER}/credentials",
                "storage_options": {"account_name": azurite.ACCOUNT, "azure_storage_endpoint": azure.service,
                                    "azure_storage_sas_token": "?" + azurite.sas()}},
        "connection_string": {"destination": f"azure://{CONTAINER}/credentials",
                              "storage_options": {"AZURE_STORAGE_CONNECTION_STRING": azure.connection_string()}},
        "address": {"destination": f"https://{azurite.ACCOUNT}.blob.core.windows.net/{CONTAINER}/credentials",
                    "storage_options": azure.options()},
    }


@pytest.mark.parametrize("kind", ["key", "sas", "connection_string", "address"])
def test_credentials_of_the_options(azure, kind):
    target.load(credentials(azure)[kind], messages(kind, rows(0, 5), {})).ok()
    target.load(credentials(azure)[kind], messages(kind, rows(5, 5), {})).ok()
    check(read_deltalake(azure, f"credentials/{kind}"), rows(0, 10))


@pytest.mark.parametrize("kind", ["key", "sas", "connection_string", "emulator"])
def test_credentials_of_the_environment(azure, kind):
    named = {"AZURE_STORAGE_ACCOUNT_NAME": azurite.ACCOUNT, "AZURE_STORAGE_ENDPOINT": azure.service}
    environment = {
        "key": {**named, "AZURE_STORAGE_ACCOUNT_KEY": azurite.KEY},
        "sas": {**named, "AZURE_STORAGE_SAS_TOKEN": azurite.sas()},
        "connection_string": {"AZURE_STORAGE_CONNECTION_STRING": azure.connection_string()},
        "emulator": {"AZURE_STORAGE_USE_EMULATOR": "true", "AZURITE_BLOB_STORAGE_URL": azure.service.rsplit("/", 1)[0]},
    }[kind]
    settings = {"destination": f"az://{CONTAINER}/environment"}
    target.load(settings, messages(kind, rows(0, 5), {}), env=environment).ok()
    check(read_deltalake(azure, f"environment/{kind}"), rows(0, 5))


def test_what_is_wrong_is_named_and_no_secret_is_shown(azure):
    lines = messages("t", rows(0, 5), {})
    secret = "aHVudGVyMmh1bnRlcjI="
    wrong = azure.options(azure_storage_account_key=secret)
    result = target.load(config(azure, "wrong", storage_options=wrong), lines).refused("did not accept the account key", codes=(1,))
    assert secret not in result.stderr and "sig=" not in result.stderr.replace("sig=***", "") and not result.states
    expired = {**azure.options(), "azure_storage_sas_token": azurite.sas(expiry="2020-01-01T00:00:00Z")}
    del expired["azure_storage_account_key"]
    result = target.load(config(azure, "x", storage_options=expired), lines).refused("signature", codes=(1,))
    assert azurite.sas(expiry="2020-01-01T00:00:00Z").rsplit("sig=", 1)[1] not in result.stderr
    reading = {**expired, "azure_storage_sas_token": azurite.sas("rl")}
    target.load(config(azure, "x", storage_options=reading), lines).refused("permissions `c` and `w`", codes=(1,))
    no_container = {**config(azure, "x"), "destination": "az://no-such-lake/x"}
    target.load(no_container, lines).refused("there is no container `no-such-lake`", codes=(1,))
    target.load(config(azure, "x", storage_options={**azure.options(), "azure_storage_acount": "x"}), lines).refused(
        "did you mean", "`azure_storage_account_name`", codes=(2,))
    target.load({"destination": f"az://{CONTAINER}/x"}, lines).refused("azure_storage_account_name", codes=(2,))
    gone = {**azure.options(), "azure_storage_endpoint": f"http://127.0.0.1:{azurite.free_port()}/{azurite.ACCOUNT}",
            "max_retries": 1}
    result = target.load(config(azure, "x", storage_options=gone), lines, timeout=200)
    assert result.code in (1, 75) and azurite.KEY not in result.stderr and "sig=" not in result.stderr.replace("sig=***", "")
