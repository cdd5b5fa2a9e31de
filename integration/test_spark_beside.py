"""Spark beside delta-load on one table: it appends, merges, compacts and changes the schema; nothing is lost, nothing doubled.

On local disk during our commits. In a bucket strictly between them: Delta for Spark has no log store that uses the store's condition, so a
commit of ours that meets one of its own could be replaced.
"""
import collections
import threading
import time

import places
import pytest
import readers
import seaweedfs
import writers

WRITERS, BATCHES = 4, 12
STATEMENTS = ("append", "merge", "optimize", "add column")


class Model:
    """What Spark was told: its own rows of the table, by number."""

    def __init__(self, table):
        self.table, self.rows, self.columns, self.refused = f"delta.`{table}`", {}, [], collections.Counter()
        self.done = collections.Counter()

    def _run(self, what, statement):
        """Runs a statement; whether it was applied. A refusal by a conflict is an answer too: nothing was applied."""
        try:
            readers.sql(statement)
        except Exception as error:
            if "concurrent" not in str(error).lower() and "DELTA_CONCURRENT" not in str(error) and "DELTA_METADATA_CHANGED" not in str(error):
                raise
            self.refused[what] += 1
            return False
        self.done[what] += 1
        return True

    def append(self, number):
        values = ", ".join(f"('spark', CAST({number} AS BIGINT), CAST({i} AS BIGINT))" for i in range(writers.ROWS))
        # by name: other writers and Spark itself add columns
        if self._run("append", f"INSERT INTO {self.table} (who, batch, i) VALUES {values}"):
            self.rows.update({(number, i): number for i in range(writers.ROWS)})

    def merge(self, number):
        """Doubles `batch` of Spark's rows of one number as a negative, and adds a row that is not there."""
        if self._run("merge", f"MERGE INTO {self.table} t USING (SELECT CAST({number} AS BIGINT) AS n, CAST(id AS BIGINT) AS i "
                              f"FROM range({writers.ROWS + 1})) s ON t.who = 'spark' AND t.batch = s.n AND t.i = s.i "
                              f"WHEN MATCHED THEN UPDATE SET batch = -1 - s.n "
                              f"WHEN NOT MATCHED THEN INSERT (who, batch, i) VALUES ('spark', -1 - s.n, s.i)"):
            self.rows.update({(number, i): -1 - number for i in range(writers.ROWS + 1)})

    def optimize(self):
        self._run("optimize", f"OPTIMIZE {self.table}")

    def add_column(self):
        name = f"spark_{len(self.columns)}"
        if self._run("add column", f"ALTER TABLE {self.table} ADD COLUMNS ({name} STRING)"):
            self.columns.append(name)

    def round(self, number):
        self.append(number)
        self.merge(number)
        self.append(number + 1)
        self.optimize()
        self.add_column()

    def expected(self):
        return collections.Counter(("spark", batch, i) for (_, i), batch in self.rows.items())


def check(place, table, model, outcomes, engines):
    assert not [error for outcome in outcomes for error in outcome.errors]
    log = place.commits(table)
    assert sorted(log) == list(range(len(log))), "a gap in the log"
    ours = [version for version, actions in log.items() if actions[0]["commitInfo"].get("engineInfo", "").startswith("delta-load/")]
    acknowledged = sum(len(outcome.acknowledged) for outcome in outcomes)
    assert len(ours) == acknowledged, f"{acknowledged} commits were acknowledged, the log has {len(ours)} of ours"
    for engine in engines:
        arrow = place.read(table, engine)
        assert set(model.columns) <= set(arrow.column_names), engine
        found = collections.Counter((row["who"], row["batch"], row["i"]) for row in arrow.select(["who", "batch", "i"]).to_pylist())
        want = model.expected() + collections.Counter(
            (o.who, batch, i) for o in outcomes for batch in o.acknowledged for i in range(writers.ROWS))
        assert found == want, f"{engine}: missing {list((want - found).items())[:5]}, too many {list((found - want).items())[:5]}"


def test_spark_during_our_commits(spark, tmp_path):
    """Four processes commit without a pause, rest, and commit again, while Spark does its rounds; and again after it changed the schema.

    A MERGE of Spark is refused when anything was added while it ran: it gets through between our commits.
    """
    place = places.Folder(tmp_path)
    settings = place.settings("beside")
    begun, _ = writers.run(lambda who: writers.Ours(settings, who), 1, 1)
    model = Model(place.url("beside/t"))
    broken, ended = [], threading.Event()

    def beside():
        try:
            number = 0
            while not ended.is_set() or not all(model.done[what] for what in STATEMENTS):
                model.round(number)
                number += 2
        except Exception as error:
            broken.append(error)

    thread = threading.Thread(target=beside)
    thread.start()
    try:
        outcomes = list(begun)
        for part in range(1, 20):
            more, _ = writers.run(lambda who: writers.Ours(settings, f"{who} {part}"), WRITERS, BATCHES)
            for outcome in more:
                outcome.who += f" {part}"
            outcomes += more
            if part >= 3 and all(model.done[what] + model.refused[what] >= 2 for what in STATEMENTS) or broken:
                break
            time.sleep(1)
    finally:
        ended.set()
        thread.join()
    if broken:
        raise broken[0]
    more, _ = writers.run(lambda who: writers.Ours(settings, who), 1, 1, first=1)
    outcomes += more
    print(f"Spark: {dict(model.done)}, refused {dict(model.refused)}; ours: {sum(len(o.acknowledged) for o in outcomes)}")
    check(place, "beside/t", model, outcomes, ("spark", "duckdb", "polars", "deltalake"))


@pytest.fixture(scope="module")
def bucket():
    server = seaweedfs.Server()
    try:
        server.wait(places.BUCKET)
        yield places.Bucket(server)
    finally:
        server.stop()


def test_spark_between_our_commits_in_a_bucket(spark, bucket):
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in {"endpoint": bucket.server.endpoint, "endpoint.region": seaweedfs.REGION, "access.key": seaweedfs.KEY_ID,
                        "secret.key": seaweedfs.SECRET, "path.style.access": "true", "connection.ssl.enabled": "false"}.items():
        hadoop.set(f"fs.s3a.bucket.{bucket.bucket}.{name}", value)
    settings = bucket.settings("between")
    model = Model(bucket.url("between/t").replace("s3://", "s3a://"))
    outcomes = []
    for part in range(3):
        more, _ = writers.run(lambda who: writers.Ours(settings, f"{who} {part}"), 2, 3)
        for outcome in more:
            outcome.who += f" {part}"
        outcomes += more
        model.round(2 * part)
    assert not model.refused, model.refused
    check(bucket, "between/t", model, outcomes, ("duckdb", "polars", "deltalake"))
