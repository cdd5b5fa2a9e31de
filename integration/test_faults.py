"""A real S3 server behind a proxy that loses answers: what is acknowledged is in the table, once.

DELTA_LOAD_FAULT_SEEDS  seeds, separated by spaces; by default three
`compare_faults.py` runs the same against deltalake from PyPI and prints the table of docs/faults.md.
"""
import os

import fault_proxy
import places
import pytest
import seaweedfs
import target
import writers

SEEDS = [int(seed) for seed in os.environ.get("DELTA_LOAD_FAULT_SEEDS", "1 2 3").split()]
WRITERS, BATCHES, PERCENT = 4, 5, 30
# quick about its faults; the stall is longer than the time-out
CLIENT = {"timeout": "2s", "backoff_config.init_backoff": "10ms", "backoff_config.max_backoff": "200ms"}
STALL_MS = 3000


@pytest.fixture(scope="module")
def s3():
    server = seaweedfs.Server()
    try:
        server.wait(places.BUCKET)
        yield server
    finally:
        server.stop()


def load(s3, proxy, root, count=WRITERS, batches=BATCHES):
    place = places.Bucket(s3, proxy.endpoint)
    settings = place.settings(root, storage_options=CLIENT)
    outcomes, _ = writers.run(lambda who: writers.Ours(settings, who), count, batches)
    return place, outcomes


@pytest.mark.parametrize("seed", SEEDS)
def test_every_batch_once_whatever_becomes_of_the_answers(s3, seed):
    """Four processes create one table and commit to it; three of ten requests for the log have a fault of any kind."""
    with fault_proxy.Proxy(s3.endpoint, seed=seed, percent=PERCENT, operations=["put", "get", "head", "list"], stall_ms=STALL_MS) as proxy:
        place, outcomes = load(s3, proxy, f"seed-{seed}")
        counts = proxy.counts()
    errors = [error for outcome in outcomes for error in outcome.errors]
    assert not errors, errors[0]
    assert sum(counts["faults"].values()) >= WRITERS * BATCHES * PERCENT // 100, counts
    assert len(counts["faults"]) >= 6, f"few kinds were met: {counts}"
    table = f"seed-{seed}/t"
    log = place.commits(table)
    writers.assert_log_is_whole(log, WRITERS * BATCHES)
    for engine in ("duckdb", "deltalake"):
        compared = writers.Compared(outcomes, place.read(table, engine), log)
        compared.assert_right()
        assert compared.acknowledged == WRITERS * BATCHES


@pytest.mark.parametrize("kind", ["apply-drop", "apply-503", "twice", "late"])
def test_every_put_of_a_commit_fails_at_first(s3, kind):
    """One kind alone, with every put of a new commit: the answer is never a plain 200."""
    with fault_proxy.Proxy(s3.endpoint, seed=5, percent=100, kinds=[kind], stall_ms=STALL_MS, path="_delta_log/0") as proxy:
        place, outcomes = load(s3, proxy, f"always-{kind}", count=2, batches=2)
        assert set(proxy.counts()["faults"]) == {kind}
    assert not [error for outcome in outcomes for error in outcome.errors]
    log = place.commits(f"always-{kind}/t")
    writers.assert_log_is_whole(log, 4)
    compared = writers.Compared(outcomes, place.read(f"always-{kind}/t", "duckdb"), log)
    compared.assert_right()
    assert compared.acknowledged == 4


def test_a_store_that_ignores_the_condition_is_refused(s3):
    """The proxy takes the condition off every put, also off that of the probe."""
    with fault_proxy.Proxy(s3.endpoint, percent=100, kinds=["overwrite"], secret=seaweedfs.SECRET, path="ignored/") as proxy:
        place = places.Bucket(s3, proxy.endpoint)
        lines = [target.schema("t", writers.SCHEMA), *(target.record("t", r) for r in writers.records("one", 0)), target.state({"batch": 0})]
        result = target.load(place.settings("ignored"), lines).refused("put-if-absent", "single_writer")
        assert not result.states
        assert proxy.counts()["faults"]["overwrite"] >= 2
    assert not place.commits("ignored/t")
