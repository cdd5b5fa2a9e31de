"""Tables in a bucket of a real S3 server: loads, independent readers, credentials."""
import json
import os

import places
import pyarrow as pa
import pyarrow.fs
import pytest
import seaweedfs
import target

BUCKET = places.BUCKET
SCHEMA = {"id": {"type": "integer"}, "who": {"type": "string"}, "at": {"type": "string", "format": "date-time"},
          "amount": {"type": "number", "multipleOf": 0.01}}


@pytest.fixture(scope="module")
def s3():
    server = seaweedfs.Server()
    try:
        server.wait(BUCKET)
        yield server
    finally:
        server.stop()


def rows(first, count, who="one"):
    return [{"id": i, "who": who, "at": f"2026-01-02T03:04:{i % 60:02d}Z", "amount": i / 100} for i in range(first, first + count)]


def messages(stream, records, state):
    return [target.schema(stream, SCHEMA), *(target.record(stream, r) for r in records), target.state(state)]


def config(s3, root, **more):
    return {"destination": f"s3://{BUCKET}/{root}", "storage_options": s3.options(), **more}


def versions(s3, table):
    return places.Bucket(s3).commits(table)


def read(s3, url, engine):
    return places.Bucket(s3).read(url.removeprefix(f"s3://{BUCKET}/"), engine)


def in_plain(table):
    found = []
    for row in table.to_pylist():
        found.append((row["id"], row["who"], row["at"].isoformat()[:19], f"{row['amount']:.2f}"))
    return sorted(found)


def expected(records):
    return sorted((r["id"], r["who"], r["at"][:19], f"{r['amount']:.2f}") for r in records)


def test_a_load_is_read_by_others(s3):
    # Polars asks for files under the URL's text, so that a space in it leads nowhere
    records = rows(0, 2_500)
    for start in (0, 1_000, 2_000):
        result = target.load(config(s3, "others"), messages("t", records[start:start + 1_000], {"at": start})).ok()
        assert result.states[-1] == {"at": start}
    url = f"s3://{BUCKET}/others/t"
    for engine in ("deltalake", "polars"):
        assert in_plain(read(s3, url, engine)) == expected(records), engine
    assert sorted(versions(s3, "others/t")) == [0, 1, 2]


def test_a_load_is_read_by_duckdb(s3):
    records = rows(0, 500)
    target.load(config(s3, "duckdb"), messages("t", records, {})).ok()
    assert in_plain(read(s3, f"s3://{BUCKET}/duckdb/t", "duckdb")) == expected(records)


def test_partitions_with_special_characters(s3):
    records = [{**r, "who": who} for who in ("a b", "é=1/2", "50%", "+&?#") for r in rows(0, 50)]
    target.load(config(s3, "é lake/50%", streams={"t": {"partition_by": ["who"]}}), messages("t", records, {})).ok()
    assert in_plain(read(s3, f"s3://{BUCKET}/é lake/50%25/t", "deltalake")) == expected(records)


def test_files_of_many_parts(s3):
    """Rows that compress badly, so that a file is longer than several parts of an upload."""
    noise = [{"id": i, "who": os.urandom(4_000).hex(), "at": "2026-01-02T03:04:05Z", "amount": 1} for i in range(6_000)]
    target.load(config(s3, "large"), messages("t", noise, {})).ok()
    adds = [a["add"] for actions in versions(s3, "large/t").values() for a in actions if "add" in a]
    assert max(add["size"] for add in adds) > 12 << 20
    assert sorted(r["who"] for r in read(s3, f"s3://{BUCKET}/large/t", "deltalake").to_pylist()) == sorted(r["who"] for r in noise)
    assert not [f for f in s3.files().get_file_info(uploads(BUCKET)) if f.is_file], "parts are left"


def uploads(bucket):
    return pyarrow.fs.FileSelector(f"{bucket}/.uploads", recursive=True, allow_not_found=True)


def test_deltalake_between_our_commits(s3):
    import deltalake

    url = f"s3://{BUCKET}/beside/t"
    target.load(config(s3, "beside"), messages("t", rows(0, 10), {})).ok()
    ours = read(s3, url, "deltalake")
    deltalake.write_deltalake(url, ours, mode="append", storage_options=s3.options())
    target.load(config(s3, "beside"), messages("t", rows(10, 10), {})).ok()
    assert in_plain(read(s3, url, "deltalake")) == expected(rows(0, 10) * 2 + rows(10, 10))


def test_batch_files_in_a_bucket(s3):
    """Gzipped lines under an encoded name, and Parquet, from another bucket than the tables'; deleted only where that is asked for."""
    import pyarrow.parquet

    files = s3.files()
    files.create_dir("staging")
    with files.open_output_stream("staging/to load/part 1.jsonl.gz", compression="gzip") as out:
        out.write("".join(json.dumps(r) + "\n" for r in rows(0, 700)).encode())
    table = pa.Table.from_pylist([{**r, "at": r["at"], "amount": f"{r['amount']:.2f}"} for r in rows(700, 300)])
    with files.open_output_stream("staging/to load/part 2.parquet") as out:
        pyarrow.parquet.write_table(table, out)
    manifest = ["s3://staging/to%20load/part%201.jsonl.gz", "s3a://staging/to load/part 2.parquet"]
    batch = {"type": "BATCH", "stream": "t", "encoding": {"format": "jsonl", "compression": "gzip"}, "manifest": manifest}
    lines = [target.schema("t", SCHEMA), batch, target.state({"at": 1})]
    for clean_up in (False, True):
        root = f"batch-{clean_up}"
        result = target.load(config(s3, root, clean_up_batch_files=clean_up), lines).ok()
        assert result.states == [{"at": 1}]
        assert in_plain(read(s3, f"s3://{BUCKET}/{root}/t", "deltalake")) == expected(rows(0, 1000))
        left = [f for f in files.get_file_info(pyarrow.fs.FileSelector("staging/to load", allow_not_found=True)) if f.is_file]
        assert len(left) == (0 if clean_up else 2), left
    result = target.load(config(s3, "batch-True"), lines).refused("s3://staging/to%20load/part%201.jsonl.gz", "does not exist", codes=(1,))
    assert not result.states


def without_keys(s3):
    return {name: value for name, value in s3.options().items() if name not in ("aws_access_key_id", "aws_secret_access_key")}


def test_credentials_of_the_environment(s3):
    environment = {"AWS_ACCESS_KEY_ID": seaweedfs.KEY_ID, "AWS_SECRET_ACCESS_KEY": seaweedfs.SECRET, "AWS_REGION": seaweedfs.REGION,
                   "AWS_ENDPOINT_URL": s3.endpoint, "AWS_ALLOW_HTTP": "true"}
    settings = {"destination": f"s3a://{BUCKET}/environment"}
    target.load(settings, messages("t", rows(0, 5), {}), env=environment).ok()
    assert in_plain(read(s3, f"s3://{BUCKET}/environment/t", "deltalake")) == expected(rows(0, 5))


def test_credentials_of_a_profile_and_of_a_process(s3, tmp_path):
    credentials = tmp_path / "process.json"
    credentials.write_text(json.dumps({"Version": 1, "AccessKeyId": seaweedfs.KEY_ID, "SecretAccessKey": seaweedfs.SECRET}))
    (tmp_path / "config").write_text(f"[profile keys]\nregion = {seaweedfs.REGION}\naws_access_key_id = {seaweedfs.KEY_ID}\n"
                                     f"aws_secret_access_key = {seaweedfs.SECRET}\n"
                                     f"[profile process]\ncredential_process = cat {credentials}\n")
    environment = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
                   "AWS_EC2_METADATA_DISABLED": "true"}
    for profile in ("keys", "process"):
        options = {**without_keys(s3), "aws_profile": profile}
        settings = {"destination": f"s3://{BUCKET}/profile", "storage_options": options}
        target.load(settings, messages(profile, rows(0, 5), {}), env=environment).ok()
        assert in_plain(read(s3, f"s3://{BUCKET}/profile/{profile}", "deltalake")) == expected(rows(0, 5))


def test_what_is_wrong_is_named_and_no_secret_is_shown(s3):
    lines = messages("t", rows(0, 5), {})
    wrong = {**s3.options(), "aws_secret_access_key": "hunter2hunter2"}
    result = target.load(config(s3, "wrong", storage_options=wrong), lines).refused("secret access key is wrong", codes=(1,))
    assert "hunter2" not in result.stderr and not result.states
    no_bucket = {**config(s3, "x"), "destination": "s3://no-such-lake/x"}
    target.load(no_bucket, lines).refused("there is no bucket `no-such-lake`", codes=(1,))
    none = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/none", "AWS_SHARED_CREDENTIALS_FILE": "/none"}
    target.load(config(s3, "x", storage_options=without_keys(s3)), lines, env=none).refused("no AWS credentials", codes=(1,))
    plain = {name: value for name, value in s3.options().items() if name != "aws_allow_http"}
    target.load(config(s3, "x", storage_options=plain), lines).refused("aws_allow_http", codes=(2,))
    unknown = {**s3.options(), "aws_s3_express": "true"}
    target.load(config(s3, "x", storage_options=unknown), lines).refused("aws_s3_express", codes=(2,))
