"""A stand-in of the sources of tokens: Entra, App Service and the metadata service of machines, on a port of this machine."""
import base64
import contextlib
import http.server
import json
import threading
import time
import urllib.parse

TENANT = "00000000-1111-2222-3333-444444444444"
CLIENT = "55555555-6666-7777-8888-999999999999"
SECRET = "client~secret/of+the=test"
FEDERATED = "ey.federated.token"
APP_SERVICE = "header/of+app=service"


def token(life=3600):
    """A token as Azurite takes it: it reads what stands in it and trusts whoever signed it."""
    now = int(time.time())
    claims = {"aud": "https://storage.azure.com", "iss": f"https://sts.windows.net/{TENANT}/", "iat": now - 5, "nbf": now - 5,
              "exp": now + life, "appid": CLIENT, "tid": TENANT, "ver": "1.0"}
    parts = [{"typ": "JWT", "alg": "RS256"}, claims]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*encoded, base64.urlsafe_b64encode(b"signed by nobody").rstrip(b"=").decode()])


class Server:
    """`asked`: who asked for tokens, in order; `life`: how long the next ones live."""

    def __init__(self):
        self.asked, self.life = [], 3600
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def say(self, status, value):
                text = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def do_POST(self):
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
                who = {(SECRET, None): "secret", (None, FEDERATED): "workload"}.get(
                    (form.get("client_secret"), form.get("client_assertion")))
                if self.path != f"/{TENANT}/oauth2/v2.0/token" or form.get("client_id") != CLIENT or who is None:
                    said = f"AADSTS7000215: Invalid client secret provided: {form.get('client_secret')}"
                    return self.say(401, {"error": "invalid_client", "error_description": said, "error_codes": [7000215]})
                outer.asked.append(who)
                self.say(200, {"token_type": "Bearer", "expires_in": outer.life, "access_token": token(outer.life)})

            def do_GET(self):
                path, _, query = self.path.partition("?")
                query = dict(urllib.parse.parse_qsl(query))
                app_service = self.headers.get("x-identity-header") == APP_SERVICE
                if query.get("resource") != "https://storage.azure.com" or (path == "/app-service") != app_service:
                    return self.say(400, {"error": "invalid_request"})
                outer.asked.append((path, query.get("client_id")))
                self.say(200, {"token_type": "Bearer", "expires_on": str(int(time.time()) + outer.life),
                               "resource": query["resource"], "access_token": token(outer.life)})

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        with contextlib.suppress(OSError):
            self.server.server_close()
