"""Google Cloud Storage, started and stopped by a test: fake-gcs-server behind `gcs_front.py`.

Readers other than delta-load either reach no custom endpoint or speak gRPC, so `download` brings a table to local disk,
through the JSON API alone.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

import gcs_front
import seaweedfs


def program():
    return os.environ.get("DELTA_LOAD_FAKE_GCS", os.path.join(os.path.dirname(sys.prefix), "fakegcs", "bin", "fake-gcs-server"))


class Server:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="delta-load-gcs-")
        self.behind, front = seaweedfs.free_ports(2)
        self.api = f"http://127.0.0.1:{self.behind}"
        self.endpoint = f"http://127.0.0.1:{front}"
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        server = [program(), "-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", str(self.behind),
                  "-public-host", f"127.0.0.1:{self.behind}", "-external-url", self.api, "-log-level", "warn"]
        self.processes = [self.start(server), self.start([sys.executable, gcs_front.__file__, str(front), str(self.behind)])]

    def start(self, command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    def ask(self, method, path, body=None, endpoint=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request((endpoint or self.api) + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()

    def wait(self, bucket):
        """Makes the bucket. Ready is the server when it answers through the front."""
        deadline = time.monotonic() + 30
        while True:
            assert all(process.poll() is None for process in self.processes), self.said()
            try:
                self.ask("GET", "/storage/v1/b?project=test", endpoint=self.endpoint)
                break
            except OSError:
                assert time.monotonic() < deadline, self.said()
                time.sleep(0.1)
        self.make_bucket(bucket)

    def make_bucket(self, bucket):
        self.ask("POST", "/storage/v1/b?project=test", {"name": bucket})

    def names(self, bucket, prefix=""):
        found, token = [], None
        while True:
            query = {"prefix": prefix, **({"pageToken": token} if token else {})}
            page = json.loads(self.ask("GET", f"/storage/v1/b/{bucket}/o?{urllib.parse.urlencode(query)}"))
            found += [item["name"] for item in page.get("items", [])]
            token = page.get("nextPageToken")
            if not token:
                return found

    def get(self, bucket, name):
        return self.ask("GET", f"/storage/v1/b/{bucket}/o/{urllib.parse.quote(name, safe='')}?alt=media")

    def download(self, bucket, table, folder):
        """Brings the objects below `table` to `folder`, for readers of local disk. Returns the folder."""
        for name in self.names(bucket, table + "/"):
            path = os.path.join(folder, os.path.relpath(name, table))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(self.get(bucket, name))
        return str(folder)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-5000:]

    def stop(self):
        for process in self.processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def options(self, **more):
        """`storage_options` that reach the server, which checks no credentials."""
        return {"google_base_url": self.endpoint, "google_skip_signature": "true", **more}
