"""Spark with the log store of `spark/` beside delta-load and deltalake on one table of a bucket: nothing is lost, nothing doubled.

DELTA_LOAD_SPARK_OURS, _BATCHES, _ROUNDS, _SEEDS   sizes of the contest; `many_clusters.py` runs it as a program, with other log stores too
"""
import collections
import http.server
import os
import threading

import many_clusters
import places
import pytest
import seaweedfs
import writers

OURS = int(os.environ.get("DELTA_LOAD_SPARK_OURS", 8))
BATCHES = int(os.environ.get("DELTA_LOAD_SPARK_BATCHES", 4))
ROUNDS = int(os.environ.get("DELTA_LOAD_SPARK_ROUNDS", 1))
SEEDS = [int(seed) for seed in os.environ.get("DELTA_LOAD_SPARK_SEEDS", "1").split()]


@pytest.fixture(scope="module")
def s3():
    server = seaweedfs.Server()
    try:
        server.wait(places.BUCKET)
        yield server
    finally:
        server.stop()


# buckets of which one takes every PUT, and the other has the condition switched off in S3A
IGNORES, OFF = "ignores", "off"


class Careless(http.server.BaseHTTPRequestHandler):
    """As much of S3 as a probe meets, in a store that knows no condition: every PUT is taken, nothing is ever found."""

    protocol_version = "HTTP/1.1"
    puts = []

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": len(body)}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.puts.append((self.path, self.headers["If-None-Match"]))
        self.answer(200, ETag='"00000000000000000000000000000000"')

    def do_GET(self):
        if "list-type" in self.path:
            self.answer(200, b"<ListBucketResult><IsTruncated>false</IsTruncated><KeyCount>0</KeyCount></ListBucketResult>")
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def do_HEAD(self):
        self.answer(404)

    def do_DELETE(self):
        self.answer(204)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def careless():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Careless) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def cluster(s3, careless):
    """One Spark session for the tests that need no second one."""
    s3.files().create_dir(OFF)
    settings = {f"spark.hadoop.fs.s3a.bucket.{IGNORES}.endpoint": careless,
                f"spark.hadoop.fs.s3a.bucket.{OFF}.create.conditional.enabled": "false",
                # from the start key on, where Delta's way of it fits this Hadoop
                "spark.hadoop.delta.enableFastS3AListFrom": "true"}
    with many_clusters.Spark(s3.endpoint, **settings) as spark:
        yield spark.ready()


@pytest.mark.parametrize("seed", SEEDS)
def test_spark_clusters_delta_load_and_deltalake_on_one_table(s3, seed):
    """Appends, MERGE, OPTIMIZE and new columns from four Spark writers in two JVMs, while a fifth of the requests for commits go wrong."""
    compared, counted = many_clusters.contest(s3, f"contest-{seed}", ours=OURS, batches=BATCHES, rounds=ROUNDS, seed=seed)
    print({"acknowledged": compared.told.commits(), "refused": [dict(w.refused) for w in compared.told.spark], "faults": counted["faults"]})
    compared.assert_right()
    # one commit of the log for each that was acknowledged, and the creation; OPTIMIZE makes none where it finds nothing to do
    optimized = sum(w.acknowledged["optimize"] for w in compared.told.spark)
    assert 1 + compared.acknowledged - optimized <= len(compared.log) <= 1 + compared.acknowledged
    engines = collections.Counter(actions[0]["commitInfo"].get("engineInfo", "").split("/")[0] for actions in compared.log.values())
    assert engines["delta-load"] == OURS * BATCHES, engines
    columns = [column for w in compared.told.spark for column in w.columns]
    assert len(columns) == 2
    # besides DuckDB, which `Compared` has read with; Polars asks for the folders of partition values with a space under another name
    again = compared.place.read(compared.table, "deltalake")
    assert many_clusters.Compared(compared.told, again, compared.log).found == compared.found
    assert set(columns) <= set(again.column_names)
    assert sum(count for kind, count in counted["faults"].items() if kind != "half-body") >= 8, counted


class Records:
    """Appends of several delta-load processes at once."""

    def __init__(self, place, root):
        self.settings, self.outcomes, self.part = place.settings(root), [], 0

    def append(self, count, batches):
        part, self.part = self.part, self.part + 1
        outcomes, _ = writers.run(lambda who: writers.Ours(self.settings, f"{who} of {part}"), count, batches)
        for outcome in outcomes:
            assert not outcome.errors, outcome.errors
            outcome.who += f" of {part}"
        self.outcomes += outcomes

    def expected(self):
        return collections.Counter((o.who, batch, i) for o in self.outcomes for batch in o.acknowledged for i in range(writers.ROWS))


def test_a_stream_from_a_table_that_delta_load_writes(s3, cluster, tmp_path):
    """Structured Streaming sees exactly the appended rows, also over a restart; its sink is a table by the same log store."""
    place = places.Bucket(s3)
    source, sink, checkpoint = "s3a://lake/stream/t", "s3a://lake/stream/copy", str(tmp_path / "checkpoint")
    records = Records(place, "stream")
    records.append(1, 1)
    cluster.do("stream", source, sink, checkpoint)
    records.append(3, 4)
    cluster.do("drain", sink)
    cluster.do("stop", sink)
    records.append(2, 2)
    cluster.do("stream", source, sink, checkpoint)
    cluster.do("drain", sink)
    cluster.do("stop", sink)
    seen = collections.Counter(tuple(row) for row in cluster.sql(f"SELECT who, batch, i FROM delta.`{sink}`"))
    assert seen == records.expected()
    assert sum(seen.values()) == (1 + 3 * 4 + 2 * 2) * writers.ROWS
    log = place.commits("stream/copy")
    assert sorted(log) == list(range(len(log)))


def test_a_store_that_ignores_the_condition_is_refused(cluster):
    """It took the probe twice although both said If-None-Match; nothing is committed."""
    with pytest.raises(many_clusters.Failed, match="ignores the condition"):
        many_clusters.create(cluster, f"s3a://{IGNORES}/t")
    probes = [put for put in Careless.puts if "/_delta_load/_probe/" in put[0] and not put[0].endswith("/")]
    assert len(probes) == 2 and probes[0] == probes[1] and probes[0][1] == "*", Careless.puts
    assert not [put for put in Careless.puts if put[0].endswith(".json")], Careless.puts


def test_s3a_that_does_not_send_the_condition_is_refused(s3, cluster):
    with pytest.raises(many_clusters.Failed, match="does not send If-None-Match"):
        many_clusters.create(cluster, f"s3a://{OFF}/t")
    assert not places.Bucket(s3, bucket=OFF).commits("t")
