"""The XML API of Google Cloud Storage in front of fake-gcs-server, which answers only the JSON API in full.

fake-gcs-server has no XML PUT, no multipart upload and no `start-after`. Here they become JSON requests that the server
itself decides: a PUT becomes one upload with `uploadType=multipart`, the form whose `ifGenerationMatch` it checks and applies
under one lock. JSON requests go through as they came. No request is ever sent to the server twice.

    python gcs_front.py LISTEN_PORT SERVER_PORT [LISTEN_HOST [SERVER_HOST]]
"""
import http.client
import http.server
import json
import re
import sys
import threading
import urllib.parse
import uuid
import xml.sax.saxutils

JSON_API = re.compile(r"/(storage|upload|download|batch|_internal|resumable)/")
# headers between two machines, not between client and server
HOP = {"host", "connection", "keep-alive", "content-length", "transfer-encoding", "expect"}
CONDITIONS = {"x-goog-if-generation-match": "ifGenerationMatch", "x-goog-if-metageneration-match": "ifMetagenerationMatch"}
CODES = {400: "InvalidArgument", 404: "NoSuchKey", 405: "MethodNotAllowed", 409: "Conflict", 412: "PreconditionFailed"}


def quoted(text):
    return urllib.parse.quote(text, safe="")


def element(name, text):
    return f"<{name}>{xml.sax.saxutils.escape(str(text))}</{name}>"


class Parts:
    """Uploads that are begun: id → (object, {number: (tag, bytes)})."""

    def __init__(self):
        self.lock = threading.Lock()
        self.begun = {}

    def begin(self, name):
        upload = uuid.uuid4().hex
        with self.lock:
            self.begun[upload] = (name, {})
        return upload

    def add(self, upload, number, data):
        tag = f'"{uuid.uuid4().hex}"'
        with self.lock:
            if upload not in self.begun:
                return None
            self.begun[upload][1][number] = (tag, data)
        return tag

    def whole(self, upload, wanted):
        """The bytes of the parts `wanted` (number, tag) in that order; None when one is missing."""
        with self.lock:
            found = self.begun.get(upload)
            if found is None or not wanted:
                return None
            parts = [found[1].get(number) for number, _ in wanted]
        if any(part is None or part[0].strip('"') != tag.strip('"') for part, (_, tag) in zip(parts, wanted)):
            return None
        return b"".join(data for _, data in parts)

    def end(self, upload):
        with self.lock:
            return self.begun.pop(upload, None) is not None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    # ------------------------------------------------------------ to the server

    def ask(self, method, target, body=None, headers=None):
        """One request on a connection of its own: (status, headers, bytes)."""
        connection = http.client.HTTPConnection(*self.server.behind, timeout=120)
        try:
            connection.request(method, target, body, headers or {})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def upload(self, bucket, key, data):
        """Creates or replaces an object under the conditions of this request: (status, the object's metadata)."""
        boundary = uuid.uuid4().hex
        query = {"uploadType": "multipart"}
        query.update({name: self.headers[header] for header, name in CONDITIONS.items() if self.headers[header]})
        metadata = json.dumps({"name": key, "contentType": self.headers.get("content-type") or "application/octet-stream"})
        body = b"".join((f"--{boundary}\r\ncontent-type: application/json; charset=utf-8\r\n\r\n{metadata}\r\n".encode(),
                         f"--{boundary}\r\ncontent-type: application/octet-stream\r\n\r\n".encode(), data,
                         f"\r\n--{boundary}--\r\n".encode()))
        status, _, answer = self.ask("POST", f"/upload/storage/v1/b/{quoted(bucket)}/o?{urllib.parse.urlencode(query)}", body,
                                     {"content-type": f"multipart/related; boundary={boundary}"})
        return status, json.loads(answer) if status == 200 else {}

    # ------------------------------------------------------------ to the client

    def reply(self, status, headers=None, body=b""):
        self.send_response_only(status)
        headers = {name.lower(): value for name, value in (headers or {}).items()}
        length = headers.get("content-length", "0") if self.command == "HEAD" else str(len(body))
        for name, value in headers.items():
            if name not in HOP:
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("content-length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reply_xml(self, status, name, *children):
        text = f'<?xml version="1.0" encoding="UTF-8"?><{name}>{"".join(children)}</{name}>'
        self.reply(status, {"content-type": "application/xml"}, text.encode())

    def refuse(self, status, code=None):
        code = code or CODES.get(status, "InternalError")
        self.reply_xml(status, "Error", element("Code", code), element("Message", f"fake-gcs-server answered {status}"))

    def request_body(self):
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            length = int(self.headers.get("content-length") or 0)
            data = self.rfile.read(length)
            if len(data) < length:
                raise ConnectionError("the request was cut off")
            return data
        chunks = []
        while True:
            line = self.rfile.readline()
            if not line:
                raise ConnectionError("the request was cut off")
            size = int(line.split(b";")[0], 16)
            data = self.rfile.read(size)
            if len(data) < size or self.rfile.readline() != b"\r\n":
                raise ConnectionError("the request was cut off")
            if size == 0:
                return b"".join(chunks)
            chunks.append(data)

    # ------------------------------------------------------------ requests

    def handle_any(self):
        try:
            body = self.request_body()
        except (ConnectionError, ValueError):
            self.close_connection = True
            return
        if self.server.token and self.headers.get("authorization") != f"Bearer {self.server.token}":
            self.refuse(401, "AuthenticationRequired")
            return
        if JSON_API.match(self.path):
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
            self.reply(*self.ask(self.command, self.path, body, headers))
            return
        url = urllib.parse.urlsplit(self.path)
        bucket, _, key = url.path.lstrip("/").partition("/")
        bucket, key = urllib.parse.unquote(bucket), urllib.parse.unquote(key)
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        if not key:
            if self.command == "GET":
                self.list(bucket, query)
            else:
                self.refuse(405)
        elif "uploads" in query and self.command == "POST":
            upload = self.server.parts.begin((bucket, key))
            self.reply_xml(200, "InitiateMultipartUploadResult", element("Bucket", bucket), element("Key", key),
                           element("UploadId", upload))
        elif "uploadId" in query:
            self.part_of_upload(bucket, key, query, body)
        elif self.command == "PUT":
            self.put(bucket, key, body)
        elif self.command == "DELETE":
            status, _, _ = self.ask("DELETE", f"/storage/v1/b/{quoted(bucket)}/o/{quoted(key)}")
            if status in (200, 204):
                self.reply(204)
            else:
                self.refuse(status)
        elif self.command in ("GET", "HEAD"):
            self.read(bucket, key)
        else:
            self.refuse(405)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = handle_any

    def put(self, bucket, key, body):
        if self.headers.get("x-goog-copy-source"):
            self.refuse(501, "NotImplemented")
            return
        status, stored = self.upload(bucket, key, body)
        if status != 200:
            self.refuse(status)
            return
        self.reply(200, {"etag": f'"{stored["etag"].strip(chr(34))}"', "x-goog-generation": str(stored["generation"])})

    def part_of_upload(self, bucket, key, query, body):
        parts, upload = self.server.parts, query["uploadId"]
        if self.command == "PUT":
            tag = parts.add(upload, int(query["partNumber"]), body)
            if tag is None:
                self.refuse(404, "NoSuchUpload")
            else:
                self.reply(200, {"etag": tag})
        elif self.command == "DELETE":
            if parts.end(upload):
                self.reply(204)
            else:
                self.refuse(404, "NoSuchUpload")
        else:
            wanted = [(int(number), xml.sax.saxutils.unescape(tag, {"&quot;": '"'}))
                      for part in re.findall(r"<Part>(.*?)</Part>", body.decode(), re.S)
                      for number, tag in [(re.search(r"<PartNumber>(\d+)<", part)[1], re.search(r"<ETag>(.*?)<", part)[1])]]
            whole = parts.whole(upload, wanted)
            if whole is None:
                self.refuse(400, "InvalidPart")
                return
            status, stored = self.upload(bucket, key, whole)
            if status != 200:
                self.refuse(status)
                return
            parts.end(upload)
            self.reply_xml(200, "CompleteMultipartUploadResult", element("Bucket", bucket), element("Key", key),
                           element("ETag", f'"{stored["etag"]}"'))

    def read(self, bucket, key):
        headers = {name: self.headers[name] for name in ("range",) if self.headers[name]}
        status, headers, body = self.ask(self.command, f"/{quoted(bucket)}/{urllib.parse.quote(key)}", None, headers)
        if status >= 400:
            self.refuse(status)
            return
        self.reply(status, headers, body)

    def list(self, bucket, query):
        names = {"prefix": "prefix", "delimiter": "delimiter", "max-keys": "maxResults", "continuation-token": "pageToken",
                 "start-after": "startOffset"}
        asked = {json_name: query[name] for name, json_name in names.items() if query.get(name)}
        status, _, answer = self.ask("GET", f"/storage/v1/b/{quoted(bucket)}/o?{urllib.parse.urlencode(asked)}")
        if status != 200:
            self.refuse(status, "NoSuchBucket" if status == 404 else None)
            return
        listing, after = json.loads(answer), query.get("start-after", "")
        found = [element("Name", bucket), element("IsTruncated", "true" if listing.get("nextPageToken") else "false")]
        for item in listing.get("items", []):
            if item["name"] > after:  # startOffset includes the name itself
                found.append("<Contents>" + element("Key", item["name"]) + element("LastModified", item["updated"])
                             + element("ETag", f'"{item["etag"]}"') + element("Size", item["size"]) + "</Contents>")
        for prefix in listing.get("prefixes", []):
            if prefix > after:
                found.append("<CommonPrefixes>" + element("Prefix", prefix) + "</CommonPrefixes>")
        if listing.get("nextPageToken"):
            found.append(element("NextContinuationToken", listing["nextPageToken"]))
        self.reply_xml(200, "ListBucketResult", *found)


class Front(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, listen, behind, token=None):
        """`token`: the one that requests must bear; without it anybody is answered, as by the server itself."""
        super().__init__(listen, Handler)
        self.behind = behind
        self.token = token
        self.parts = Parts()

    def handle_error(self, request, client_address):
        """A client that hangs up is no error of the front."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


if __name__ == "__main__":
    port, behind_port = int(sys.argv[1]), int(sys.argv[2])
    host, behind_host = (sys.argv[3:] + ["127.0.0.1", "127.0.0.1"][len(sys.argv[3:]):])
    Front((host, port), (behind_host, behind_port)).serve_forever()
