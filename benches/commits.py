"""Commits per second of many writers on one table: delta-load and deltalake from PyPI, alternating in one run, on SeaweedFS and on local disk.

    DELTA_LOAD_BIN=target/release/delta-load python benches/commits.py [--writers 1,4,16] [--commits 20] [--runs 10] [--places s3,local]

Needs the Python of integration/setup.sh, and the proxy (`cargo build --workspace`, in release). Every writer is a process that commits batch after
batch, each when the one before was acknowledged. The table exists and each writer has committed once before the clock starts. After every
run the log is compared with what the writers were told: a run that loses, doubles or leaves a gap ends the bench. Failures are counted.

Then, on SeaweedFS behind the proxy (`integration/faults`, no faults): what one commit costs in requests, both sides. And with --latency
(40 by default, 0 leaves it out) every request takes so many milliseconds longer: the rate beside 1 / (PUT + GET) of one writer alone through the
same proxy, and the longest wait of any commit.
"""
import argparse
import collections
import os
import platform
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration"))

import fault_proxy  # noqa: E402
import places  # noqa: E402
import seaweedfs  # noqa: E402
import target  # noqa: E402
import writers  # noqa: E402


def begin_ours(place, root):
    settings = place.settings(root)
    return lambda who: writers.Ours(settings, who)


def begin_theirs(place, root):
    return lambda who: writers.Theirs(place.url(f"{root}/{writers.STREAM}"), place.options(), who)


SIDES = {"delta-load": begin_ours, "deltalake": begin_theirs}


class Run:
    """One run: `count` writers with `commits` batches each, on a table of its own."""

    def __init__(self, side, place, root, count, commits, proxy=None):
        begin = SIDES[side](place, root)
        writers.run(begin, 1, 1, first=-2)  # makes the table
        at_start = collections.Counter()

        def before():
            if proxy is not None:
                at_start.update(proxy.counts()["requests"])

        outcomes, self.seconds = writers.run(begin, count, commits, warm=-1, before=before)
        if proxy is not None:
            self.requests = collections.Counter(proxy.counts()["requests"]) - at_start
        self.done = sum(len(o.acknowledged) for o in outcomes)
        self.failed = sum(len(o.failed) for o in outcomes)
        self.waits = sorted(second for o in outcomes for second in o.seconds)
        errors = [error for o in outcomes for error in o.errors]
        table = f"{root}/{writers.STREAM}"
        log = place.commits(table)
        assert sorted(log) == list(range(len(log))), f"{side}: a gap in the log of {table}"
        compared = writers.Compared(outcomes, place.read(table, "duckdb"), log)
        if side == "delta-load":
            assert not errors, errors[0]
            compared.assert_right()
        else:
            assert not compared.lost, compared.lost

    @property
    def rate(self):
        return self.done / self.seconds


def spread(values, digits=1):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} – {max(values):.{digits}f})"


def rates(place, arguments):
    """Both sides alternate; a line for each number of writers."""
    for count in map(int, arguments.writers.split(",")):
        runs = collections.defaultdict(list)
        for number in range(arguments.runs):
            for side in arguments.sides.split(","):
                runs[side].append(Run(side, place, f"{side}-{count}-{number}", count, arguments.commits))
        for side, done in runs.items():
            waits = [second for run in done for second in run.waits]
            print(f"{place.name:6} {count:3} writers  {side:10}  {spread([run.rate for run in done])} commits/s  "
                  f"{sum(run.failed for run in done)} of {sum(run.failed + run.done for run in done)} failed  longest wait {max(waits):.2f} s", flush=True)
        if len(runs) == 2:
            ratios = [one.rate / other.rate for one, other in zip(*runs.values())]
            print(f"{place.name:6} {count:3} writers  {' / '.join(runs)}: {spread(ratios, 2)} times, run by run", flush=True)


def requests(server, arguments):
    for side in arguments.sides.split(","):
        for count in map(int, arguments.writers.split(",")):
            with fault_proxy.Proxy(server.endpoint) as proxy:
                run = Run(side, places.Bucket(server, proxy.endpoint), f"requests-{side}-{count}", count, arguments.commits, proxy)
            each = ", ".join(f"{name} {number / run.done:.2f}" for name, number in sorted(run.requests.items()))
            print(f"requests per commit, {count:2} writers, {side}: {sum(run.requests.values()) / run.done:.2f} ({each})", flush=True)


def latency(server, arguments):
    with fault_proxy.Proxy(server.endpoint, latency_ms=arguments.latency) as proxy:
        place = places.Bucket(server, proxy.endpoint)
        Run("delta-load", place, "alone", 1, arguments.commits)
        counts = proxy.counts()
        one = {name: counts["seconds"][name] / counts["requests"][name] for name in ("put log", "get log")}
        best = 1 / sum(one.values())
        print(f"{arguments.latency} ms more for each request: PUT {one['put log'] * 1000:.0f} ms, GET {one['get log'] * 1000:.0f} ms, "
              f"1 / (PUT + GET) = {best:.1f} a second", flush=True)
        for count in map(int, arguments.writers.split(",")):
            run = Run("delta-load", place, f"latency-{count}", count, arguments.commits, proxy)
            each = ", ".join(f"{name} {number / run.done:.2f}" for name, number in sorted(run.requests.items()))
            print(f"  {count:2} writers: {run.rate:.2f} commits/s, {100 * run.rate / best:.0f} % of that; waits: median {statistics.median(run.waits):.2f} s, "
                  f"95 % {run.waits[int(len(run.waits) * 0.95)]:.2f} s, longest {run.waits[-1]:.2f} s; requests per commit: {each}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", default="1,4,16")
    parser.add_argument("--commits", type=int, default=20, help="of each writer and run")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--places", default="s3,local")
    parser.add_argument("--sides", default="delta-load,deltalake")
    parser.add_argument("--parts", default="rates,requests,latency")
    parser.add_argument("--latency", type=int, default=40)
    parser.add_argument("--work", default=None, help="folder for the tables on local disk")
    arguments = parser.parse_args()
    parts = arguments.parts.split(",")
    version = subprocess.run([target.binary(), "--version"], capture_output=True, text=True, check=True).stdout.strip()
    import deltalake

    print(f"{version} ({os.path.relpath(target.binary())}), deltalake {deltalake.__version__}, {platform.machine()}, {os.cpu_count()} cores, "
          f"{arguments.commits} commits per writer, {arguments.runs} runs", flush=True)
    server = seaweedfs.Server()
    try:
        server.wait(places.BUCKET)
        if "rates" in parts and "s3" in arguments.places:
            rates(places.Bucket(server), arguments)
        if "requests" in parts:
            requests(server, arguments)
        if "latency" in parts and arguments.latency:
            latency(server, arguments)
    finally:
        server.stop()
    if "rates" in parts and "local" in arguments.places:
        with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
            rates(places.Folder(folder), arguments)


if __name__ == "__main__":
    main()
