"""Destinations that cannot be written and a closed stdout: a clear error at once, exit 1, nothing damaged."""
import contextlib
import os
import shutil
import subprocess
import tempfile

import delta_log
import pytest
import readers
import target

# nobody: whoever runs the tests, a folder without the write bit is closed to them
AS_NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups") if os.geteuid() == 0 else ()


def stream(rows, states_every=0, width=10):
    lines = [target.schema("t", {"id": {"type": "integer"}, "s": {"type": "string"}}, ["id"])]
    for i in range(rows):
        # hex of random bytes: Parquet cannot make it small
        lines.append(target.record("t", {"id": i, "s": os.urandom(width // 2).hex()}))
        if states_every and (i + 1) % states_every == 0:
            lines.append(target.state({"at": i + 1}))
    return lines


@pytest.fixture
def open_folder():
    """A folder that any user can enter (pytest's own are closed to others), with the binary in it."""
    folder = tempfile.mkdtemp(prefix="delta-load-")
    os.chmod(folder, 0o777)
    yield folder
    subprocess.run(["chmod", "-R", "u+w", folder], check=False)
    shutil.rmtree(folder, ignore_errors=True)


def load_as_nobody(folder, destination, messages):
    """Runs a copy of the binary: the folders above the one under test may be closed to nobody."""
    binary = os.path.join(folder, "delta-load")
    if not os.path.exists(binary):
        shutil.copy2(target.binary(), binary)
    config = os.path.join(folder, "config.json")
    with open(config, "w", encoding="utf-8") as f:
        f.write('{"destination": "%s"}' % destination)
    os.chmod(config, 0o644)
    done = subprocess.run([*AS_NOBODY, binary, "--config", config], input=target.as_input(messages), capture_output=True,
                          env=target.clean_environment(HOME=folder, TMPDIR=folder), cwd=folder, timeout=120)
    return target.Result(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))


def test_read_only_destination(open_folder):
    lake = os.path.join(open_folder, "lake")
    os.mkdir(lake)
    os.chmod(lake, 0o555)
    result = load_as_nobody(open_folder, lake, stream(5, 5)).refused("permission", lake, codes=(1,))
    assert result.states == [] and os.listdir(lake) == []


def test_read_only_table(open_folder):
    """A table that stands, in folders that are closed: refused, and not a byte of it is changed."""
    lake = os.path.join(open_folder, "lake")
    os.mkdir(lake)
    os.chmod(lake, 0o777)
    load_as_nobody(open_folder, lake, stream(5, 5)).ok()
    table = os.path.join(lake, "t")
    rows = readers.rows("duckdb", table)
    for closed in ([table, os.path.join(table, "_delta_log")], [os.path.join(table, "_delta_log")]):
        for folder in closed:
            os.chmod(folder, 0o555)
        before = delta_log.fingerprint(os.path.join(table, "_delta_log"))
        result = load_as_nobody(open_folder, lake, stream(5, 5)).refused("permission", "t", codes=(1,))
        assert result.states == []
        assert delta_log.fingerprint(os.path.join(table, "_delta_log")) == before
        assert readers.rows("duckdb", table) == rows
        for folder in closed:
            os.chmod(folder, 0o777)
    load_as_nobody(open_folder, lake, stream(5, 5)).ok()
    assert len(readers.rows("duckdb", table)) == 10


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 8 MiB."""
    where = tmp_path / "small"
    where.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(where)], capture_output=True, text=True)
    if mounted.returncode != 0:
        reason = f"a full disk needs a tmpfs to mount, and that was not allowed: {mounted.stderr.strip()}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    yield str(where)
    subprocess.run(["umount", str(where)], check=True)


def test_full_disk(small_disk):
    lake = os.path.join(small_disk, "lake")
    table = os.path.join(lake, "t")
    target.load({"destination": lake}, stream(100, 50)).ok()
    rows, version = readers.rows("duckdb", table), delta_log.version(table)
    # some 20 MB of random text into what is left of 8 MiB
    result = target.load({"destination": lake}, stream(20_000, 20_000, width=2000)).refused("space", codes=(1,))
    assert result.states == []
    assert delta_log.version(table) == version
    for engine in ("duckdb", "deltalake"):
        assert readers.rows(engine, table) == rows
    # once there is room again, the same table takes the next load: an orphan of the failed one is no obstacle
    for root, _, files in os.walk(table):
        for name in files:
            path = os.path.join(root, name)
            if os.path.getsize(path) > 100_000:
                os.remove(path)
    target.load({"destination": lake}, stream(100, 50)).ok()
    assert len(readers.rows("duckdb", table)) == 200


def test_full_disk_from_the_start(small_disk):
    with open(os.path.join(small_disk, "filler"), "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(bytes(4096))
    target.load({"destination": os.path.join(small_disk, "lake")}, stream(10, 5)).refused("space", codes=(1,))


def closed_stdout(lake, messages, **config):
    """The target with a stdout that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    path = lake + ".json"
    with open(path, "w", encoding="utf-8") as f:
        f.write('{"destination": "%s"%s}' % (lake, "".join(f', "{k}": {v}' for k, v in config.items())))
    done = subprocess.run([target.binary(), "--config", path], input=target.as_input(messages), stdout=writing, stderr=subprocess.PIPE,
                          env=target.clean_environment(), timeout=120)
    os.close(writing)
    return target.Result(done.returncode, "", done.stderr.decode(errors="replace"))


def test_closed_stdout(lake):
    closed_stdout(lake, stream(1000, 100)).refused("stdout", codes=(1,))
    # what was committed before the first STATE could not be written is whole; the tap sends all of it again
    table = os.path.join(lake, "t")
    rows = readers.rows("duckdb", table) if delta_log.version(table) >= 0 else []
    assert [row["id"] for row in sorted(rows, key=lambda r: r["id"])] == list(range(len(rows)))


def test_nothing_more_is_committed_once_stdout_is_closed(lake):
    """Commits come with every STATE here: after the one whose STATE could not leave there is no other."""
    closed_stdout(lake, stream(1000, 100), batch_size_rows=100, state_interval_seconds=0.001).refused("stdout", codes=(1,))
    assert len(delta_log.live_adds(os.path.join(lake, "t"))) <= 2
