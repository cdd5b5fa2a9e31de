"""Azurite, started and stopped by a test: the blob service of Azure, which honours `If-None-Match: *` (losers get 409).

It checks keys and signatures; tokens are taken over https only, by what they say and not by who signed them.
"""
import base64
import contextlib
import datetime
import hashlib
import hmac
import http.client
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import xml.etree.ElementTree

# The emulator's own, which are public: DuckDB's delta extension goes to the emulator by this name only.
# Source: https://learn.microsoft.com/en-us/azure/storage/common/storage-use-azurite#well-known-storage-account-and-key
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
VERSION = "2022-11-02"


def program():
    folder = os.environ.get("DELTA_LOAD_AZURITE", os.path.join(os.path.dirname(sys.prefix), "azurite"))
    return os.path.join(folder, "node_modules", ".bin", "azurite-blob")


def free_port():
    with contextlib.closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def sas(permissions="rwdlc", expiry="2999-01-01T00:00:00Z"):
    """A signature for all of the account. Source: https://learn.microsoft.com/en-us/rest/api/storageservices/create-account-sas"""
    text = f"{ACCOUNT}\n{permissions}\nb\nsco\n\n{expiry}\n\n\n{VERSION}\n\n"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    return urllib.parse.urlencode({"sv": VERSION, "ss": "b", "srt": "sco", "sp": permissions, "se": expiry, "sig": signature})


class Server:
    def __init__(self, *more, scheme="http"):
        self.folder = tempfile.mkdtemp(prefix="delta-load-azure-")
        self.port = free_port()
        self.service = f"{scheme}://127.0.0.1:{self.port}/{ACCOUNT}"
        self.log = open(os.path.join(self.folder, "log"), "w+b")
        self.process = subprocess.Popen(
            [program(), "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence", "--blobHost",
             "127.0.0.1", "--blobPort", str(self.port), *more],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
            env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"})

    def request(self, method, path, query="", body=b"", headers=None, connection=http.client.HTTPConnection):
        """One request with a signature; the answer's status and text."""
        sent = connection("127.0.0.1", self.port, timeout=30)
        with contextlib.closing(sent):
            query = f"{query}&{sas()}" if query else sas()
            sent.request(method, f"/{ACCOUNT}/{urllib.parse.quote(path)}?{query}", body, headers or {})
            answer = sent.getresponse()
            return answer.status, answer.read()

    def wait(self, container, connection=http.client.HTTPConnection):
        """Makes the container."""
        deadline = time.monotonic() + 60
        while True:
            assert self.process.poll() is None, self.said()
            try:
                status, text = self.request("PUT", container, "restype=container", connection=connection)
                assert status == 201, (status, text)
                return
            except OSError:
                assert time.monotonic() < deadline, self.said()
                time.sleep(0.1)

    def names(self, container, prefix, include=""):
        """The names of the blobs below a prefix; `include=uncommittedblobs` shows those whose blocks were never put together."""
        marker, found = "", []
        while True:
            query = urllib.parse.urlencode({"restype": "container", "comp": "list", "prefix": prefix, "marker": marker})
            status, text = self.request("GET", container, query + (f"&include={include}" if include else ""))
            assert status == 200, (status, text)
            listed = xml.etree.ElementTree.fromstring(text)
            found += [name.text for name in listed.findall("./Blobs/Blob/Name")]
            marker = listed.findtext("NextMarker") or ""
            if not marker:
                return found

    def read(self, container, name):
        status, text = self.request("GET", f"{container}/{name}")
        assert status == 200, (status, text)
        return text

    def said(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-5000:]

    def stop(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def connection_string(self):
        return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};BlobEndpoint={self.service};"

    def options(self, **more):
        """`storage_options` as deltalake, Polars and delta-load take them."""
        return {"azure_storage_account_name": ACCOUNT, "azure_storage_account_key": KEY, "azure_storage_endpoint": self.service,
                "azure_allow_http": "true", **more}
