"""SeaweedFS, started and stopped by a test: a real S3 server that honours `If-None-Match: *`.

It answers a PUT some seconds after its port is open, lists per directory rather than in the order of bytes, and checks keys.
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pyarrow.fs

KEY_ID = "delta-load-test"
SECRET = "secret/of+the=test"
REGION = "eu-central-1"


def program():
    return os.environ.get("DELTA_LOAD_WEED", os.path.join(os.path.dirname(sys.prefix), "seaweedfs", "bin", "weed"))


def free_ports(count):
    """Ports that are free together with the one 10,000 above, which SeaweedFS takes for its own protocol."""
    found = []
    with contextlib.ExitStack() as held:
        while len(found) < count:
            one = held.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1] - 10_000
            with contextlib.suppress(OSError):
                other = held.enter_context(socket.socket())
                other.bind(("127.0.0.1", port))
                found.append(port)
    return found


class Server:
    """`users`: more of them, name → actions (`Read`, `Write`, `List`); the name is the key id too, the secret is the same."""

    def __init__(self, users=None):
        self.folder = tempfile.mkdtemp(prefix="delta-load-s3-")
        master, volume, filer, s3 = free_ports(4)
        self.endpoint = f"http://127.0.0.1:{s3}"
        identities = [{"name": "admin", "credentials": [{"accessKey": KEY_ID, "secretKey": SECRET}],
                       "actions": ["Admin", "Read", "Write", "List", "Tagging"]}]
        identities += [{"name": name, "credentials": [{"accessKey": name, "secretKey": SECRET}], "actions": actions}
                       for name, actions in (users or {}).items()]
        config = os.path.join(self.folder, "s3.json")
        with open(config, "w", encoding="utf-8") as f:
            json.dump({"identities": identities}, f)
        data = os.path.join(self.folder, "data")
        os.mkdir(data)
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        self.process = subprocess.Popen(
            [program(), "-logtostderr=true", "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
             "-master.telemetry=false", f"-master.port={master}", "-master.volumeSizeLimitMB=256", "-master.electionTimeout=1s",
             f"-volume.port={volume}", "-volume.max=20", "-volume.preStopSeconds=0", "-filer", f"-filer.port={filer}",
             "-s3", f"-s3.port={s3}", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0",
             f"-filer.localSocket={self.folder}/filer.sock", f"-s3.localSocket={self.folder}/s3.sock"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True)

    def files(self):
        return pyarrow.fs.S3FileSystem(access_key=KEY_ID, secret_key=SECRET, region=REGION, endpoint_override=self.endpoint,
                                       allow_bucket_creation=True, request_timeout=10, connect_timeout=5)

    def wait(self, bucket):
        """Makes the bucket. Ready is the server when a PUT succeeds."""
        deadline = time.monotonic() + 60
        while True:
            assert self.process.poll() is None, self.said()
            try:
                self.files().create_dir(bucket)
                with self.files().open_output_stream(f"{bucket}/ready") as out:
                    out.write(b"x")
                return
            except OSError:
                assert time.monotonic() < deadline, self.said()
                time.sleep(0.2)

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-5000:]

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def options(self, **more):
        """`storage_options` as deltalake and delta-load take them."""
        return {"aws_access_key_id": KEY_ID, "aws_secret_access_key": SECRET, "aws_region": REGION,
                "aws_endpoint_url": self.endpoint, "aws_allow_http": "true", **more}
