"""What becomes of commits when answers are lost: delta-load and deltalake from PyPI beside each other, one kind of fault at a time.

    DELTA_LOAD_BIN=… python integration/compare_faults.py [--batches 25] [--writers 4] [--percent 30] [--seeds 1] [--kinds apply-drop,…]

Both write to SeaweedFS behind the same proxy, with the same seed and the same faults (`integration/faults`). Prints the table of
docs/faults.md: per kind the commits tried; doubled (a batch is in the table twice, or two versions of the log add its file), false failures (an error, but the batch is there),
lost (acknowledged, but not there), and failed (an error, and not there).
"""
import argparse
import collections
import sys

import fault_proxy
import places
import seaweedfs
import test_faults
import writers

KINDS = ["apply-drop", "apply-500", "apply-503", "apply-429", "apply-stall", "apply-409", "answer-409", "answer-503", "drop", "twice", "late",
         "overwrite"]
READS = ["slow-list", "half-body"]


def measure(server, begin, kind, seed, arguments):
    """Runs one side against one kind; gives what was counted."""
    of_reads = kind in READS
    options = {"seed": seed, "percent": arguments.percent, "kinds": [kind], "stall_ms": test_faults.STALL_MS}
    if of_reads:
        options["operations"] = ["get", "list"]
    if kind == "overwrite":
        # the condition is ignored wherever it comes, or a probe would find nothing
        options.update(percent=100, secret=seaweedfs.SECRET, path="/")
    with fault_proxy.Proxy(server.endpoint, **options) as proxy:
        place = places.Bucket(server, proxy.endpoint)
        root = f"{begin.__name__}-{kind}-{seed}"
        outcomes, seconds = writers.run(lambda who: begin(place, root, who), arguments.writers, arguments.batches)
        faults = sum(proxy.counts()["faults"].values())
    table = f"{root}/t"
    log = place.commits(table)
    if not log:
        refused = outcomes[0].errors[0].strip().splitlines() if outcomes[0].errors else ["no commit"]
        return None, next((line for line in refused if line.startswith("error:")), refused[-1]), faults, seconds
    return writers.Compared(outcomes, place.read(table, "duckdb"), log), outcomes, faults, seconds


def ours(place, root, who):
    return writers.Ours(place.settings(root, storage_options=test_faults.CLIENT), who)


def theirs(place, root, who):
    return writers.Theirs(place.url(f"{root}/t"), place.options(**test_faults.CLIENT), who)


SIDES = {"delta-load": ours, "deltalake": theirs}


def row(server, kind, arguments):
    """One line of the table: per side the faults that were made and what became of the commits."""
    cells = []
    for side in arguments.sides.split(","):
        sums, faults, refused = [0] * 4, 0, None
        for seed in range(1, arguments.seeds + 1):
            compared, said, hit, seconds = measure(server, SIDES[side], kind, seed, arguments)
            faults += hit
            if compared is None:
                refused = said
                continue
            sums[0] += max(len(compared.doubled), len(compared.committed_twice))
            sums[1] += len(compared.false_failures)
            sums[2] += len(compared.lost)
            sums[3] += compared.failed - len(compared.false_failures)
            errors = collections.Counter(" ".join(error.split())[-200:] for outcome in said for error in outcome.errors)
            print(f"{side}, {kind}, seed {seed}: {seconds:.1f} s, {hit} faults, {sums}, {dict(errors.most_common(3))}", file=sys.stderr)
        cells.append(f"{faults}: refused, {refused}" if refused else f"{faults}: {', '.join(map(str, sums))}")
    return f"| `{kind}` | {arguments.writers * arguments.batches * arguments.seeds} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=25)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--percent", type=int, default=30)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--kinds", default=",".join(KINDS + READS))
    parser.add_argument("--sides", default=",".join(SIDES))
    arguments = parser.parse_args()
    server = seaweedfs.Server()
    try:
        server.wait(places.BUCKET)
        sides = arguments.sides.split(",")
        print(f"| fault | commits tried | {' | '.join(f'{side}: faults: doubled, false failures, lost, failed' for side in sides)} |")
        print("|---|---|" + "---|" * len(sides))
        for kind in arguments.kinds.split(","):
            print(row(server, kind, arguments), flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
