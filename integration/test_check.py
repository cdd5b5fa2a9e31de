"""`delta-load check` on a real S3 server and on local disk, by users with and without rights."""
import json
import os
import shutil
import subprocess
import tempfile

import pytest
import seaweedfs
import target

BUCKET = "lake"
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()


@pytest.fixture(scope="module")
def s3():
    server = seaweedfs.Server({"reader": ["Read", "List"], "writer": ["Write"]})
    try:
        server.wait(BUCKET)
        yield server
    finally:
        server.stop()


def run(*arguments, config=None, binary=None, prefix=(), **more):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(config or {}, f)
        f.flush()
        os.chmod(f.name, 0o644)
        done = subprocess.run([*prefix, binary or target.binary(), "check", "--config", f.name, "--format", "json", *arguments],
                              capture_output=True, text=True, env=target.clean_environment(**more), timeout=300)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert seaweedfs.SECRET not in done.stdout + done.stderr
    assert done.returncode == (1 if found["outcome"] == "failed" else 0), done.stderr
    return found


def results(found):
    return {step["step"]: step["result"] for step in found["steps"]}


def odd(found):
    return {step: result for step, result in results(found).items() if result != "ok"}


def left(s3):
    files = s3.files()
    import pyarrow.fs
    infos = files.get_file_info(pyarrow.fs.FileSelector(BUCKET, recursive=True))
    return [info.path for info in infos if "_delta_load" in info.path and info.type == pyarrow.fs.FileType.File]


def test_a_good_bucket(s3):
    found = run(f"s3://{BUCKET}/raw data", config={"storage_options": s3.options()})
    assert odd(found) == {}, found
    assert len(found["steps"]) == 12 and found["left_behind"] == [] and left(s3) == []


def test_credentials_are_told_by_where_they_come_from(s3):
    options = {k: v for k, v in s3.options().items() if "key" not in k}
    found = run(f"s3://{BUCKET}/raw", config={"storage_options": options},
                AWS_ACCESS_KEY_ID=seaweedfs.KEY_ID, AWS_SECRET_ACCESS_KEY=seaweedfs.SECRET)
    assert odd(found) == {}, found
    assert "environment variables" in found["steps"][1]["detail"] and seaweedfs.KEY_ID in found["steps"][1]["detail"]


def test_a_user_who_may_only_read(s3):
    found = run(f"s3://{BUCKET}/raw", config={"storage_options": s3.options(aws_access_key_id="reader")})
    rows = results(found)
    assert (rows["list"], rows["get"], rows["put"], rows["put-if-absent"]) == ("ok", "ok", "failed", "failed"), found
    assert "s3:PutObject" in next(step for step in found["steps"] if step["step"] == "put")["hint"]
    assert left(s3) == []


def test_a_user_who_may_only_write(s3):
    found = run(f"s3://{BUCKET}/raw", config={"storage_options": s3.options(aws_access_key_id="writer")})
    rows = results(found)
    assert (rows["put"], rows["list"], rows["get"]) == ("ok", "failed", "failed"), found
    assert rows["table"] == "not_tried", found


@pytest.mark.parametrize("options, step, words", [
    ({"aws_secret_access_key": "another secret"}, "list", "the secret access key is wrong"),
    ({"aws_access_key_id": "nobody-knows-me"}, "list", "access key id"),
    ({"aws_endpoint_url": "http://127.0.0.1:1"}, "endpoint", "no answer came from"),
])
def test_what_holds_for_every_request_is_told_once(s3, options, step, words):
    found = run(f"s3://{BUCKET}/raw", config={"storage_options": s3.options(**options)})
    failed = [row for row in found["steps"] if row["result"] == "failed"]
    assert [row["step"] for row in failed] == [step] and words in failed[0]["detail"], found
    assert {row["result"] for row in found["steps"][found["steps"].index(failed[0]) + 1:]} == {"not_tried"}, found


def test_a_bucket_that_is_not_there(s3):
    found = run("s3://no-such-lake/raw", config={"storage_options": s3.options()})
    assert any("there is no bucket `no-such-lake`" in row["detail"] for row in found["steps"]), found


def test_a_table_that_a_load_made(s3):
    config = {"destination": f"s3://{BUCKET}/loaded", "storage_options": s3.options()}
    target.load(config, [target.schema("t", {"id": {"type": "integer"}}), target.record("t", {"id": 1})]).ok()
    found = run(f"s3://{BUCKET}/loaded/t", config={"storage_options": s3.options()})
    assert odd(found) == {} and "a table, version 0, 1 column" in found["steps"][-1]["detail"], found


def test_a_folder_that_is_closed():
    folder = tempfile.mkdtemp(prefix="delta-load-")
    try:
        os.chmod(folder, 0o777)
        binary = shutil.copy2(target.binary(), folder)
        lake = os.path.join(folder, "lake")
        os.mkdir(lake)
        os.chmod(lake, 0o555)
        found = run(lake, binary=binary, prefix=AS_NOBODY, HOME=folder)
        assert odd(found) == {"put": "failed", "put-if-absent": "failed", "atomic": "not_tried"}, found
        assert "no permission" in next(step for step in found["steps"] if step["step"] == "put")["detail"]
        assert os.listdir(lake) == []
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("module, good, missing, words", [
    ("azurite", "az://lake/raw data", "az://no-such-lake/x", "there is no container `no-such-lake`"),
    ("gcs", "gs://lake/raw data", "gs://no-such-lake/x", "there is no bucket `no-such-lake`"),
])
def test_azure_and_google(module, good, missing, words):
    server = __import__(module).Server()
    try:
        server.wait(BUCKET)
        options = {"storage_options": server.options()}
        found = run(good, config=options)
        assert odd(found) == {} and len(found["steps"]) == 12 and found["left_behind"] == [], found
        found = run(missing, config=options)
        [failed] = [step for step in found["steps"] if step["result"] == "failed"]
        assert failed["step"] == "list" and words in failed["detail"], found
        assert results(found)["delete"] == "not_tried", "what holds for every request is told once"
    finally:
        server.stop()
