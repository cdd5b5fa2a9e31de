"""Writers side by side on one table: delta-load processes, and loops of deltalake from PyPI doing the same.

Each commit is one batch: `ROWS` rows with the writer's name, the batch's number and a number within it. A batch is sent when the one before
was acknowledged (its STATE is out, `write_deltalake` came back), so that one STATE is one commit.
"""
import collections
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time

import target

SCHEMA = {"who": {"type": "string"}, "batch": {"type": "integer"}, "i": {"type": "integer"}}
ROWS = 5
# every STATE is a commit, and is out as soon as it is one
SETTINGS = {"batch_wait_limit_seconds": 0, "state_interval_seconds": 0}
STREAM = "t"


class Outcome:
    """What a writer was told: batches acknowledged and failed, the seconds that each took, and the errors."""

    def __init__(self, who):
        self.who, self.acknowledged, self.failed, self.seconds, self.errors = who, [], [], [], []


def records(who, batch, rows=ROWS):
    return [{"who": who, "batch": batch, "i": i} for i in range(rows)]


class Ours:
    """One delta-load process, which gets batch after batch."""

    def __init__(self, settings, who):
        self.who = who
        self.config = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump({**settings, **SETTINGS}, self.config)
        self.config.flush()
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen([target.binary(), "--config", self.config.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.stderr, env=target.clean_environment())
        self.is_begun = False

    def ready(self):
        """It reads as soon as it is there."""

    def commit(self, batch):
        """Sends a batch and waits for its STATE; raises `Failed` when the process ended instead."""
        lines = [] if self.is_begun else [target.schema(STREAM, SCHEMA)]
        self.is_begun = True
        lines += [target.record(STREAM, r) for r in records(self.who, batch)] + [target.state({"batch": batch})]
        try:
            self.process.stdin.write(target.as_input(lines))
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failed(self.end()) from None
        line = self.process.stdout.readline()
        if not line:
            raise Failed(self.end())
        assert json.loads(line) == {"batch": batch}, line

    def end(self):
        """Closes the input, waits for the end, gives what was said."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=1000)
        self.process.stdout.close()
        self.stderr.seek(0)
        text = self.stderr.read().decode(errors="replace")
        self.stderr.close()
        self.config.close()
        return text

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.end()


class Failed(Exception):
    pass


class Theirs:
    """One process that appends with `deltalake.write_deltalake`."""

    def __init__(self, url, options, who):
        self.who = who
        self.stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen([sys.executable, __file__, url, json.dumps(options), who], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.stderr)
        self.is_ready = False

    def ready(self):
        if not self.is_ready:
            self.is_ready = True
            assert self.process.stdout.readline() == b"ready\n", self.end()

    def commit(self, batch):
        self.ready()
        self.process.stdin.write(f"{batch}\n".encode())
        self.process.stdin.flush()
        said = self.process.stdout.readline()
        if not said:
            raise Failed(self.end())
        error = json.loads(said)
        if error is not None:
            raise Failed(error)

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=1000)
        self.process.stdout.close()
        self.stderr.seek(0)
        text = self.stderr.read().decode(errors="replace")
        self.stderr.close()
        return text

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.end()


def run(begin, count, batches, first=0, warm=None, before=None):
    """Runs `count` writers side by side, each with `batches` batches; gives an `Outcome` for each and the seconds of the whole.

    `begin(who)` starts a writer. One that ended with its batch is started again for the next one: that batch counts as failed.
    `warm`: number of a batch that each commits, one after another, before the clock starts; `before()` is called in between.
    """
    names = [f"writer {n}" for n in range(count)]
    outcomes = [Outcome(who) for who in names]
    writers = [begin(who) for who in names]
    for writer in writers:
        writer.ready()
        if warm is not None:
            writer.commit(warm)
    if before is not None:
        before()
    broken = []
    ready = threading.Barrier(count + 1)

    def work(index):
        outcome, writer = outcomes[index], writers[index]
        ready.wait()
        for batch in range(first, first + batches):
            start = time.monotonic()
            try:
                if writer.process.poll() is not None:
                    writer = writers[index] = begin(outcome.who)
                writer.commit(batch)
                outcome.acknowledged.append(batch)
            except Failed as error:
                outcome.failed.append(batch)
                outcome.errors.append(str(error))
            except Exception as error:  # a bug of the test is not a failed batch
                broken.append(error)
                return
            outcome.seconds.append(time.monotonic() - start)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.monotonic()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - start
    try:
        if broken:
            raise broken[0]
        for writer, outcome in zip(writers, outcomes):
            if writer.process.poll() is None:
                text = writer.end()
                if writer.process.returncode:
                    outcome.errors.append(text)
    finally:
        for writer in writers:
            writer.stop()
    return outcomes, seconds


class Compared:
    """What writers were told beside what the table and its log hold."""

    def __init__(self, outcomes, table, log):
        found = collections.Counter((row["who"], row["batch"], row["i"]) for row in table.select(["who", "batch", "i"]).to_pylist())
        batches = collections.defaultdict(list)
        for (who, batch, _), count in found.items():
            batches[who, batch].append(count)
        self.tried = sum(len(o.acknowledged) + len(o.failed) for o in outcomes)
        acknowledged = {(o.who, b) for o in outcomes for b in o.acknowledged}
        failed = {(o.who, b) for o in outcomes for b in o.failed}
        self.acknowledged, self.failed = len(acknowledged), len(failed)
        self.lost = sorted(acknowledged - set(batches))
        self.doubled = sorted(key for key, counts in batches.items() if max(counts) > 1)
        # A file that two versions add: readers of the newest version show it once, readers of the log twice, and so does the table once a
        # compaction between the two versions has taken the first one's rows over.
        versions = collections.defaultdict(set)
        for version, actions in log.items():
            for action in actions:
                if "add" in action:
                    versions[action["add"]["path"]].add(version)
        self.committed_twice = sorted(path for path, at in versions.items() if len(at) > 1)
        # told that it failed, but it is there
        self.false_failures = sorted(failed & set(batches))
        self.torn = sorted(key for key, counts in batches.items() if len(counts) != ROWS or len(set(counts)) != 1)

    def assert_right(self):
        """Every acknowledged batch once and whole, none that was said to have failed."""
        wrong = {name: getattr(self, name)[:5] for name in ("lost", "doubled", "committed_twice", "false_failures", "torn") if getattr(self, name)}
        assert not wrong, wrong


def assert_log_is_whole(log, commits):
    """`commits` versions from 0 on without a gap, and the protocol only in the first."""
    assert sorted(log) == list(range(commits)), f"{len(log)} versions up to {max(log, default=-1)} instead of {commits}"
    assert [version for version, actions in sorted(log.items()) if any("protocol" in a for a in actions)] == [0]


def main():
    """Reads numbers of batches from stdin, appends each to the table, answers with the error as JSON or null."""
    import pyarrow as pa
    from deltalake import write_deltalake

    url, options, who = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
    schema = pa.schema([("who", pa.string()), ("batch", pa.int64()), ("i", pa.int64())])
    print("ready", flush=True)
    for line in sys.stdin:
        rows = pa.Table.from_pylist(records(who, int(line)), schema=schema)
        error = None
        try:
            write_deltalake(url, rows, mode="append", storage_options=options or None)
        except Exception as caught:
            error = f"{type(caught).__name__}: {caught}"
        print(json.dumps(error), flush=True)


if __name__ == "__main__":
    main()
