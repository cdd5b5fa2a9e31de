"""The proxy of `integration/faults` before an S3 server: faults by a seed, latency, counted requests."""
import json
import os
import signal
import subprocess
import urllib.request

import target


def program():
    """The proxy, built by `cargo build --workspace` into the folder of the binary under test."""
    path = os.environ.get("DELTA_LOAD_FAULTS_BIN") or os.path.join(os.path.dirname(target.binary()), "delta-load-faults")
    assert os.access(path, os.X_OK), f"{path} is not there: cargo build --workspace makes it, DELTA_LOAD_FAULTS_BIN names another place"
    return path


class Proxy:
    """A running proxy. `options`: those of the program, `seed=7`, `kinds=[…]`, `latency_ms=40`."""

    def __init__(self, upstream, **options):
        words = []
        for name, value in options.items():
            words += ["--" + name.replace("_", "-"), ",".join(value) if isinstance(value, (list, tuple)) else str(value)]
        self.process = subprocess.Popen([program(), "--upstream", upstream, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.endpoint = self.process.stdout.readline().decode().strip()
        assert self.endpoint.startswith("http://"), f"the proxy ended with {self.process.wait()}"

    def counts(self):
        """`{"requests": {"put log": n, …}, "faults": {"apply-drop": n, …}}` since the start."""
        with urllib.request.urlopen(f"{self.endpoint}/_faults/counts", timeout=10) as answer:
            return json.load(answer)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
