"""Spark clusters, delta-load processes and deltalake on one table of a bucket, all at once.

`run` has four Spark writers in two JVMs append, MERGE, OPTIMIZE and add columns, while delta-load processes and one of deltalake append,
and `Table` compares what they were told with what is there. As a program it does the same with a log store of one's choice and prints
what was lost:

    DELTA_LOAD_BIN=… python integration/many_clusters.py --log-store none --rounds 20
    DELTA_LOAD_BIN=… python integration/many_clusters.py --log-store ours --rounds 20 --faults 7
"""
import argparse
import collections
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import fault_proxy
import places
import seaweedfs
import target
import writers

CLASS = "dev.deltaload.S3ConditionalLogStore"

QUIET = """
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
logger.store.name = dev.deltaload
logger.store.level = info
"""


def log_store_jar():
    """The jar of `spark/`, which .ci/run builds."""
    folder = os.environ.get("DELTA_LOAD_LOG_STORE", os.path.join(os.path.dirname(os.path.dirname(sys.prefix)), "log-store"))
    jars = glob.glob(os.path.join(folder, "delta-load-log-store-*.jar"))
    assert len(jars) == 1, f"{folder} has {len(jars)} jars of the log store: mvn -f spark/pom.xml -Dout={folder} verify makes it"
    return jars[0]


def spark_jars():
    folder = os.environ.get("DELTA_LOAD_JARS", os.path.join(os.path.dirname(sys.prefix), "jars"))
    jars = sorted(glob.glob(os.path.join(folder, "*.jar")))
    assert jars, f"no Delta jars in {folder}: run integration/setup.sh"
    return jars


class Failed(Exception):
    """A statement that Spark refused; its text has the messages of all causes."""


class Spark:
    """A Spark session in a process of its own (`spark_process.py`), for any number of threads."""

    def __init__(self, endpoint, log_store=CLASS, **settings):
        self.scratch = tempfile.mkdtemp(prefix="delta-load-spark-")
        logging = os.path.join(self.scratch, "log4j2.properties")
        with open(logging, "w", encoding="utf-8") as f:
            f.write(QUIET)
        everything = {
            "spark.driver.extraClassPath": ":".join([*spark_jars(), log_store_jar()]),
            "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={logging}",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalogImplementation": "in-memory",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": os.path.join(self.scratch, "warehouse"),
            "spark.local.dir": os.path.join(self.scratch, "local"),
            "spark.databricks.delta.snapshotPartitions": "2",
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": seaweedfs.REGION,
            "spark.hadoop.fs.s3a.access.key": seaweedfs.KEY_ID,
            "spark.hadoop.fs.s3a.secret.key": seaweedfs.SECRET,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
            "spark.hadoop.fs.s3a.buffer.dir": self.scratch,
            **({"spark.delta.logStore.s3a.impl": log_store} if log_store else {}),
            **settings,
        }
        self.stderr = open(os.path.join(self.scratch, "stderr"), "w+b")
        python = os.environ.get("DELTA_LOAD_SPARK_PYTHON", sys.executable)
        program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spark_process.py")
        self.process = subprocess.Popen([python, program, json.dumps(everything)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.stderr, env={**os.environ, "TZ": "UTC", "SPARK_LOCAL_IP": "127.0.0.1"})
        self.lock, self.waiting, self.number = threading.Lock(), {}, 0
        self.versions = None

    def ready(self):
        """Waits for the session; several may start side by side."""
        first = self.process.stdout.readline()
        assert first, f"Spark ended\n{self.said()}"
        self.versions = json.loads(first)
        threading.Thread(target=self._listen, daemon=True).start()
        return self

    def _listen(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            with self.lock:
                done, box = self.waiting.pop(answer["id"])
            box.update(answer)
            done.set()
        with self.lock:
            left, self.waiting = list(self.waiting.values()), None
        for done, box in left:
            box["error"] = f"Spark ended\n{self.said()}"
            done.set()

    def sql(self, statement):
        """Runs a statement and gives its rows; raises `Failed`."""
        return self.do("sql", statement)

    def do(self, what, *arguments, timeout=600):
        """Has the process do one of the things that `spark_process.Session` can."""
        done, box = threading.Event(), {}
        with self.lock:
            assert self.waiting is not None, f"Spark ended\n{self.said()}"
            self.number += 1
            self.waiting[self.number] = (done, box)
            self.process.stdin.write(json.dumps({"id": self.number, "do": what, "with": arguments}).encode() + b"\n")
            self.process.stdin.flush()
        assert done.wait(timeout), f"no answer in {timeout} s to {what} {arguments}"
        if "error" in box:
            raise Failed(box["error"])
        return box["rows"]

    def said(self):
        self.stderr.flush()
        with open(self.stderr.name, encoding="utf-8", errors="replace") as f:
            return f.read()[-8000:]

    def all_said(self):
        with open(self.stderr.name, encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.stderr.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


CONFLICT = re.compile(r"concurrent|DELTA_METADATA_CHANGED|MetadataChanged|DELTA_PROTOCOL_CHANGED", re.IGNORECASE)


class SparkWriter:
    """One writer of a Spark session, and what it was told. Its rows are those of `who`, the table's partition."""

    TRIES = 40

    def __init__(self, spark, url, who):
        self.spark, self.table, self.who = spark, f"delta.`{url}`", who
        self.rows, self.columns, self.unknown = {}, [], []
        self.acknowledged, self.refused = collections.Counter(), collections.Counter()

    def _run(self, what, statement):
        """Whether the statement was applied. One that a conflict refused was not, and is run again."""
        for _ in range(self.TRIES):
            try:
                self.spark.sql(statement)
            except Failed as error:
                if "may exist" in str(error):
                    self.unknown.append((what, str(error)))
                    return False
                if not CONFLICT.search(str(error)):
                    raise
                self.refused[what] += 1
                continue
            self.acknowledged[what] += 1
            return True
        raise Failed(f"{self.TRIES} conflicts in a row: {statement}")

    def append(self, batch):
        values = ", ".join(f"('{self.who}', CAST({batch} AS BIGINT), CAST({i} AS BIGINT))" for i in range(writers.ROWS))
        if self._run("append", f"INSERT INTO {self.table} (who, batch, i) VALUES {values}"):
            self.rows.update({(batch, i): batch for i in range(writers.ROWS)})

    def merge(self, batch):
        """Turns the rows of one batch into those of batch -1 - n, and adds one that was not there."""
        if self._run("merge", f"MERGE INTO {self.table} t USING (SELECT CAST({batch} AS BIGINT) AS n, id AS i "
                              f"FROM range({writers.ROWS + 1})) s ON t.who = '{self.who}' AND t.batch = s.n AND t.i = s.i "
                              f"WHEN MATCHED THEN UPDATE SET batch = -1 - s.n "
                              f"WHEN NOT MATCHED THEN INSERT (who, batch, i) VALUES ('{self.who}', -1 - s.n, s.i)"):
            self.rows.update({(batch, i): -1 - batch for i in range(writers.ROWS + 1)})

    def optimize(self):
        self._run("optimize", f"OPTIMIZE {self.table} WHERE who = '{self.who}'")

    def add_column(self, name):
        if self._run("add column", f"ALTER TABLE {self.table} ADD COLUMNS ({name} STRING)"):
            self.columns.append(name)

    def work(self, rounds, column=None):
        for number in range(rounds):
            self.append(2 * number)
            self.merge(2 * number)
            self.append(2 * number + 1)
            if column and number == rounds // 2:
                self.add_column(column)
            if number == rounds - 1:
                self.optimize()

    def expected(self):
        return collections.Counter((self.who, batch, i) for (_, i), batch in self.rows.items())


class Told:
    """What all writers of a run were told."""

    def __init__(self, spark, others):
        self.spark, self.others = spark, others

    def expected(self):
        rows = collections.Counter((o.who, b, i) for o in self.others for b in o.acknowledged for i in range(writers.ROWS))
        for writer in self.spark:
            rows += writer.expected()
        return rows

    def commits(self):
        """Acknowledged commits by writer: a statement of Spark is one (OPTIMIZE may find nothing to do), a STATE or append of the others too."""
        return {**{w.who: sum(w.acknowledged.values()) for w in self.spark}, **{o.who: len(o.acknowledged) for o in self.others}}


def run(sparks, url, begin_ours, begin_theirs, ours, batches, rounds):
    """Two writers in each of `sparks`, `ours` processes of delta-load with `batches` each, one of deltalake with as many; gives `Told`.

    The table is there and partitioned by `who`.
    """
    spark_writers = [SparkWriter(spark, url, f"spark {n} {name}") for n, spark in enumerate(sparks) for name in "ab"]
    broken, told = [], []

    def guarded(work, *arguments):
        def inside():
            try:
                work(*arguments)
            except BaseException as error:
                broken.append(error)
        return threading.Thread(target=inside)

    def others(begin, count, name):
        outcomes, _ = writers.run(begin, count, batches)
        for number, outcome in enumerate(outcomes):
            outcome.who = name(number)
        told.extend(outcomes)

    # one writer of each session changes the schema
    threads = [guarded(w.work, rounds, f"extra_{n}" if n % 2 == 0 else None) for n, w in enumerate(spark_writers)]
    if ours:
        threads.append(guarded(others, begin_ours, ours, lambda number: f"writer {number}"))
    threads.append(guarded(others, lambda _: begin_theirs("deltalake"), 1, lambda _: "deltalake"))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise broken[0]
    return Told(spark_writers, told)


class Compared:
    """What the writers were told beside what is in the table and its log."""

    def __init__(self, told, table, log):
        self.told, self.log = told, log
        self.found = collections.Counter((r["who"], r["batch"], r["i"]) for r in table.select(["who", "batch", "i"]).to_pylist())
        self.expected = told.expected()
        self.missing, self.surplus = self.expected - self.found, self.found - self.expected
        # a batch that its writer was told to have failed, or of which it was told nothing, may be there
        open_batches = {(o.who, b) for o in told.others for b in o.failed}
        self.false_failures = sorted({(who, batch) for who, batch, _ in self.surplus if (who, batch) in open_batches})
        self.doubled = sorted({key[:2] for key, count in self.found.items() if count > 1})
        # commits that were acknowledged and are not in the log: each has its own txnId, or at least its files
        self.acknowledged = sum(told.commits().values())

    def lost_batches(self):
        """Acknowledged appends none of whose rows are there: `(who, batch)`."""
        whole = collections.defaultdict(list)
        for (who, batch, i), _ in self.expected.items():
            whole[who, batch].append(self.found[who, batch, i])
        return sorted(key for key, counts in whole.items() if not any(counts))

    def assert_right(self):
        assert sorted(self.log) == list(range(len(self.log))), f"a gap in the log: {sorted(self.log)}"
        unknown = [u for w in self.told.spark for u in w.unknown] + [e for o in self.told.others for e in o.errors]
        assert not unknown, unknown[0]
        assert not self.missing and not self.surplus, (
            f"missing {list(self.missing.items())[:5]} ({sum(self.missing.values())}), "
            f"too many {list(self.surplus.items())[:5]} ({sum(self.surplus.values())})")


def arena(server, root, ours_endpoint=None):
    """The place and settings of one run: its table is `<root>/t`, partitioned by the writer."""
    place = places.Bucket(server, ours_endpoint)
    settings = place.settings(root, streams={writers.STREAM: {"partition_by": ["who"]}})
    return place, settings


def create(spark, url):
    spark.sql(f"CREATE TABLE delta.`{url}` (who STRING, batch BIGINT, i BIGINT) USING delta PARTITIONED BY (who)")


FAULTS = ["apply-drop", "apply-500", "apply-503", "apply-409", "answer-409", "drop", "twice", "late"]
# S3A repeats a request by itself, and would take minutes over a network as bad as that
HASTY = {"spark.hadoop.fs.s3a.attempts.maximum": "2", "spark.hadoop.fs.s3a.retry.interval": "50ms",
         "spark.hadoop.fs.s3a.retry.throttle.interval": "50ms"}


@contextlib.contextmanager
def network(server, seed, percent, latency_ms=0):
    """The endpoint for the writers: the server itself, or a proxy with faults on requests for commits and a longer way for all."""
    if seed is None and not latency_ms:
        yield server.endpoint, dict
        return
    puts = {} if seed is None else {"seed": seed, "percent": percent, "kinds": FAULTS, "operations": ["put"]}
    reads = {} if seed is None else {"seed": seed, "percent": percent, "kinds": ["half-body"], "operations": ["get"]}
    with (fault_proxy.Proxy(server.endpoint, latency_ms=latency_ms, path="_delta_log/0", **puts) as inner,
          fault_proxy.Proxy(inner.endpoint, path="_delta_log/0", **reads) as outer):
        yield outer.endpoint, lambda: {**inner.counts(), "faults": {**inner.counts()["faults"], **outer.counts()["faults"]}}


def contest(server, root, *, log_store=CLASS, ours=8, batches=5, rounds=3, seed=None, percent=20, latency_ms=0):
    """One whole run; gives `Compared` and what the proxy counted. deltalake goes past a proxy with faults: it settles no lost answer."""
    with network(server, seed, percent, latency_ms) as (endpoint, counts):
        place, config = arena(server, root, endpoint)
        options = server.options(aws_endpoint_url=endpoint if seed is None else server.endpoint)
        url = f"s3a://{place.bucket}/{root}/{writers.STREAM}"
        with contextlib.ExitStack() as stack:
            sparks = [stack.enter_context(Spark(endpoint, log_store, **(HASTY if seed is not None else {}))) for _ in range(2)]
            for spark in sparks:
                spark.ready()
            create(sparks[0], url)
            told = run(sparks, url, lambda who: writers.Ours(config, who),
                       lambda who: writers.Theirs(place.url(f"{root}/{writers.STREAM}"), options, who), ours, batches, rounds)
            said = [spark.all_said() for spark in sparks]
        counted = counts()
    table = f"{root}/{writers.STREAM}"
    compared = Compared(told, place.read(table, "duckdb"), place.commits(table))
    compared.said, compared.place, compared.table, compared.versions = said, place, table, [s.versions for s in sparks]
    return compared, counted


def main():
    parser = argparse.ArgumentParser(description="Spark, delta-load and deltalake on one table of a bucket, and what was lost")
    parser.add_argument("--log-store", choices=["ours", "none"], default="ours", help="none: Delta's own store for s3a://")
    parser.add_argument("--ours", type=int, default=8, help="processes of delta-load")
    parser.add_argument("--batches", type=int, default=20, help="commits of each of them and of deltalake")
    parser.add_argument("--rounds", type=int, default=10, help="of each of the four Spark writers: two appends and a MERGE")
    parser.add_argument("--faults", type=int, metavar="SEED", help="lose, repeat and delay requests for commits by this seed")
    parser.add_argument("--latency-ms", type=int, default=0, help="that each request takes longer, as on the way to a real S3")
    parser.add_argument("--percent", type=int, default=20, help="of those requests")
    arguments = parser.parse_args()
    target.binary()
    server = seaweedfs.Server()
    try:
        server.wait(places.BUCKET)
        compared, counted = contest(server, "contest", log_store=CLASS if arguments.log_store == "ours" else None, ours=arguments.ours,
                                    batches=arguments.batches, rounds=arguments.rounds, seed=arguments.faults, percent=arguments.percent,
                                    latency_ms=arguments.latency_ms)
    finally:
        server.stop()
    lost = compared.lost_batches()
    print(json.dumps({
        "versions": compared.versions[0], "log_store": arguments.log_store, "seed": arguments.faults,
        "acknowledged": compared.acknowledged, "by": compared.told.commits(), "commits_in_the_log": len(compared.log),
        "refused_by_a_conflict": {w.who: dict(w.refused) for w in compared.told.spark},
        "failed": {o.who: len(o.failed) for o in compared.told.others if o.failed},
        "not_known": sum(len(w.unknown) for w in compared.told.spark),
        "lost_batches": len(lost), "lost": [list(key) for key in lost],
        "missing_rows": sum(compared.missing.values()), "surplus_rows": sum(compared.surplus.values()), "faults": counted,
        "read_back_as_ours": sum(text.count("read back, it is ours") for text in compared.said),
    }, indent=1))


if __name__ == "__main__":
    main()
