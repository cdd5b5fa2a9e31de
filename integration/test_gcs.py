"""Tables in a bucket of a Google Cloud Storage server: loads, independent readers, many processes, credentials."""
import collections
import contextlib
import http.server
import json
import os
import re
import subprocess
import tempfile
import threading

import gcs
import gcs_front
import pyarrow as pa
import pytest
import readers
import target

SCHEMA = {"id": {"type": "integer"}, "who": {"type": "string"}, "at": {"type": "string", "format": "date-time"},
          "amount": {"type": "number", "multipleOf": 0.01}}


@pytest.fixture(scope="module")
def server():
    server = gcs.Server()
    try:
        server.wait("lake")
        yield server
    finally:
        server.stop()


@pytest.fixture
def bucket(server, request):
    """A bucket of the test's own: the server looks through the whole of one at each request."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60]
    server.make_bucket(name)
    return name


def rows(first, count, who="one"):
    return [{"id": i, "who": who, "at": f"2026-01-02T03:04:{i % 60:02d}Z", "amount": i / 100} for i in range(first, first + count)]


def messages(stream, records, state):
    return [target.schema(stream, SCHEMA), *(target.record(stream, r) for r in records), target.state(state)]


def config(server, bucket, root, **more):
    return {"destination": f"gs://{bucket}/{root}", "storage_options": server.options(), **more}


def emulator_key(server):
    """The key that tells object_store, and us, of an emulator."""
    return json.dumps({"gcs_base_url": server.endpoint, "disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""})


def versions(server, bucket, table):
    """The commits of the log: version → actions."""
    out = {}
    for name in server.names(bucket, f"{table}/_delta_log/"):
        found = re.fullmatch(r".*/(\d{20})\.json", name)
        if found:
            out[int(found[1])] = [json.loads(line) for line in server.get(bucket, name).decode().splitlines()]
    return out


def read_deltalake(server, url):
    import deltalake

    table = deltalake.DeltaTable(url, storage_options={"google_service_account_key": emulator_key(server)})
    return pa.table(table.to_pyarrow_table())


def read_polars(server, url):
    import polars

    return polars.read_delta(url, storage_options={"google_service_account_key": emulator_key(server)}).to_arrow()


def in_plain(table):
    return sorted((r["id"], r["who"], r["at"].isoformat()[:19], f"{r['amount']:.2f}") for r in table.to_pylist())


def expected(records):
    return sorted((r["id"], r["who"], r["at"][:19], f"{r['amount']:.2f}") for r in records)


def test_a_load_is_read_by_others(server, bucket, tmp_path):
    records = rows(0, 2_500)
    for start in (0, 1_000, 2_000):
        result = target.load(config(server, bucket, "a"), messages("t", records[start:start + 1_000], {"at": start})).ok()
        assert result.states[-1] == {"at": start}
    assert sorted(versions(server, bucket, "a/t")) == [0, 1, 2]
    table = server.download(bucket, "a/t", tmp_path / "t")
    readers.compare(table, target.expected_rows(records, table))
    assert in_plain(read_deltalake(server, f"gs://{bucket}/a/t")) == expected(records)
    assert in_plain(read_polars(server, f"gs://{bucket}/a/t")) == expected(records)


def test_partitions_with_special_characters(server, bucket, tmp_path):
    records = [{**r, "who": who} for who in ("a b", "é=1/2", "50%", "+&?#") for r in rows(0, 50)]
    settings = config(server, bucket, "é lake/50%25", streams={"t": {"partition_by": ["who"]}})
    target.load(settings, messages("t", records, {})).ok()
    table = server.download(bucket, "é lake/50%/t", tmp_path / "t")
    readers.compare(table, target.expected_rows(records, table))


def test_files_of_many_parts(server, bucket, tmp_path):
    """Rows that compress badly, so that a file is longer than several parts of an upload."""
    noise = [{"id": i, "who": os.urandom(4_000).hex(), "at": "2026-01-02T03:04:05Z", "amount": 1} for i in range(6_000)]
    target.load(config(server, bucket, "large"), messages("t", noise, {})).ok()
    adds = [a["add"] for actions in versions(server, bucket, "large/t").values() for a in actions if "add" in a]
    assert max(add["size"] for add in adds) > 12 << 20
    table = server.download(bucket, "large/t", tmp_path / "t")
    found = readers.ENGINES["deltalake"](table).arrow()
    assert sorted(found.column("who").to_pylist()) == sorted(r["who"] for r in noise)


PROCESSES = int(os.environ.get("DELTA_LOAD_GCS_PROCESSES", 16))
COMMITS = int(os.environ.get("DELTA_LOAD_GCS_COMMITS", 5))
ROWS = 20


def test_many_processes_on_one_table(server, bucket, tmp_path):
    """All create the table at once, and commit it again and again: no gap, no duplicate, no failure."""
    with tempfile.TemporaryDirectory() as folder:
        settings = os.path.join(folder, "config.json")
        with open(settings, "w", encoding="utf-8") as f:
            json.dump(config(server, bucket, "many", batch_size_rows=ROWS, state_interval_seconds=1), f)
        # The pipe is fed commit by commit: a stretch is sent when the STATE of the one before has come out.
        writers = [subprocess.Popen([target.binary(), "--config", settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, env=target.clean_environment()) for _ in range(PROCESSES)]
        for at in range(COMMITS):
            for number, writer in enumerate(writers):
                records = rows(at * ROWS, ROWS, who=f"writer {number}")
                lines = messages("t", records, {"at": at})
                writer.stdin.write(target.as_input(lines if at == 0 else lines[1:]))
                writer.stdin.flush()
            for writer in writers:
                if at + 1 < COMMITS:
                    assert json.loads(writer.stdout.readline()) == {"at": at}, writer.stderr.read()
        ended = [writer.communicate(timeout=300) for writer in writers]
    for writer, (_, stderr) in zip(writers, ended):
        assert writer.returncode == 0, stderr.decode()
    log = versions(server, bucket, "many/t")
    assert sorted(log) == list(range(PROCESSES * COMMITS))
    assert sum("protocol" in action for actions in log.values() for action in actions) == 1
    table = server.download(bucket, "many/t", tmp_path / "t")
    found = collections.Counter((row["who"], row["id"]) for row in readers.ENGINES["deltalake"](table).arrow().to_pylist())
    want = {(f"writer {number}", i) for number in range(PROCESSES) for i in range(COMMITS * ROWS)}
    assert set(found) == want and set(found.values()) == {1}


def test_deltalake_between_our_commits(server, bucket):
    import deltalake

    url = f"gs://{bucket}/beside/t"
    target.load(config(server, bucket, "beside"), messages("t", rows(0, 10), {})).ok()
    ours = read_deltalake(server, url)
    deltalake.write_deltalake(url, ours, mode="append", storage_options={"google_service_account_key": emulator_key(server)})
    target.load(config(server, bucket, "beside"), messages("t", rows(10, 10), {})).ok()
    assert in_plain(read_deltalake(server, url)) == expected(rows(0, 10) * 2 + rows(10, 10))


def test_an_emulator_is_found_as_other_programs_find_it(server, bucket):
    lines = messages("t", rows(0, 5), {})
    target.load({"destination": f"gs://{bucket}/a"}, lines, env={"STORAGE_EMULATOR_HOST": server.endpoint}).ok()
    target.load({"destination": f"gcs://{bucket}/a", "storage_options": {"service_account_key": emulator_key(server)}}, lines).ok()
    assert in_plain(read_deltalake(server, f"gs://{bucket}/a/t")) == expected(rows(0, 5) * 2)


# ---------------------------------------------------------------- credentials

TOKEN = "ya29.token-of-the-test"


class TokenService(http.server.BaseHTTPRequestHandler):
    """Gives the one token to whoever asks as Google's services want it."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path.split("?")[0])
        self.give(self.headers.get("metadata-flavor") == "Google")

    def do_POST(self):
        self.server.asked.append(self.path)
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.give("refresh-of-the-test" in body or "subject_token=" in body)

    def give(self, is_known):
        answer = {"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600,
                  "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
        text = json.dumps(answer if is_known else {"error": "invalid_grant"}).encode()
        self.send_response(200 if is_known else 401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextlib.contextmanager
def running(service):
    thread = threading.Thread(target=service.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{service.server_address[1]}"
    finally:
        service.shutdown()
        service.server_close()
        thread.join()


@pytest.fixture(scope="module")
def guarded(server):
    """(address of a front that wants the token, address of the service that gives it, what that was asked)."""
    service = http.server.ThreadingHTTPServer(("127.0.0.1", 0), TokenService)
    service.asked = []
    with running(gcs_front.Front(("127.0.0.1", 0), ("127.0.0.1", server.behind), TOKEN)) as front, running(service) as tokens:
        yield front, tokens, service.asked


def federated(tokens, source):
    return {"type": "external_account", "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/a/providers/b",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "token_url": f"http://{tokens}/sts", "credential_source": source}


def test_credentials_of_the_environment(server, bucket, guarded, tmp_path):
    front, tokens, asked = guarded
    (tmp_path / "subject").write_text("subject-of-the-test")
    script = tmp_path / "subject.sh"
    script.write_text("#!/bin/sh\necho '" + json.dumps(
        {"version": 1, "success": True, "token_type": "urn:ietf:params:oauth:token-type:jwt", "id_token": "subject-of-the-test",
         "expiration_time": 4102444800}) + "'\n")
    script.chmod(0o755)
    login = {"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "refresh-of-the-test",
             "token_uri": f"http://{tokens}/token"}
    aws = {"environment_id": "aws1", "regional_cred_verification_url": "https://sts.{region}.amazonaws.com?Action=GetCallerIdentity&Version=2011-06-15"}
    of_aws = {**federated(tokens, aws), "subject_token_type": "urn:ietf:params:aws:token-type:aws4_request"}
    keys = {
        "login": (login, {}, ["/token"]),
        "file": (federated(tokens, {"file": str(tmp_path / "subject")}), {}, ["/sts"]),
        "program": (federated(tokens, {"executable": {"command": str(script)}}), {"GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES": "1"}, ["/sts"]),
        "aws": (of_aws, {"AWS_ACCESS_KEY_ID": "AKIDTEST", "AWS_SECRET_ACCESS_KEY": "hunter2hunter2", "AWS_REGION": "eu-central-1"}, ["/sts"]),
        "machine": (None, {"GCE_METADATA_HOST": tokens}, ["/computeMetadata/v1/instance/service-accounts/default/token"]),
    }
    options = {"google_base_url": f"http://{front}", "allow_http": "true"}
    for name, (key, environment, expected_asks) in keys.items():
        if key is not None:
            path = tmp_path / f"{name}.json"
            path.write_text(json.dumps(key))
            environment["GOOGLE_APPLICATION_CREDENTIALS"] = str(path)
        asked.clear()
        result = target.load({"destination": f"gs://{bucket}/{name}", "storage_options": options}, messages("t", rows(0, 5), {}),
                             env={"HOME": str(tmp_path), **environment})
        assert result.code == 0, f"{name}: {result.stderr}"
        assert asked == expected_asks, name
        assert sorted(versions(server, bucket, f"{name}/t")) == [0], name


def test_what_is_wrong_is_named_and_no_secret_is_shown(server, bucket, guarded, tmp_path):
    front, tokens, _ = guarded
    lines = messages("t", rows(0, 5), {})
    options = {"google_base_url": f"http://{front}", "allow_http": "true"}
    login = {"type": "authorized_user", "client_id": "c", "client_secret": "hunter2hunter2", "refresh_token": "hunter3hunter3",
             "token_uri": f"http://{tokens}/token"}

    def refused(settings, *words, codes=(1,), **more):
        result = target.load(settings, lines, **more).refused(*words, codes=codes)
        assert "hunter" not in result.stderr and TOKEN not in result.stderr and not result.states, result.stderr

    def at(**more):
        return {"destination": f"gs://{bucket}/wrong", "storage_options": {**options, **more}}

    refused(at(google_service_account_key=json.dumps(login)), "give no token", "invalid_grant")
    refused(at(google_skip_signature="true"), "requests are not signed")
    refused(at(), "no Google credentials", env={"GCE_METADATA_HOST": "127.0.0.1:1", "HOME": str(tmp_path)})
    refused(at(google_service_account_key="hunter2"), "is not JSON", codes=(2,))
    refused(at(google_service_account="/no/such/key.json"), "/no/such/key.json", codes=(2,))
    refused(at(google_base_uri="http://x"), "google_base_url", codes=(2,))
    refused(at(google_proxy_url="http://x"), "HTTPS_PROXY", codes=(2,))
    refused({**config(server, bucket, "x"), "destination": "gs://no-such-lake/x"}, "there is no bucket `no-such-lake`")
    plain = {"google_base_url": f"http://{front}", "google_service_account_key": json.dumps(login)}
    refused({"destination": f"gs://{bucket}/x", "storage_options": plain}, "allow_http", codes=(2,))
