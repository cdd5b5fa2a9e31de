"""Identities of Azure: tokens from stand-ins of their sources, taken by Azurite over https."""
import functools
import http.client
import json
import os
import ssl
import subprocess
import time

import azurite
import identity
import pytest
import target
from test_azure import CONTAINER, SCHEMA, messages, rows


@pytest.fixture(scope="module")
def azure(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    key, certificate = str(folder / "key.pem"), str(folder / "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    server = azurite.Server("--oauth", "basic", "--cert", certificate, "--key", key, scheme="https")
    context = ssl.create_default_context(cafile=certificate)
    server.connection = functools.partial(http.client.HTTPSConnection, context=context)
    try:
        server.wait(CONTAINER, server.connection)
        yield server
    finally:
        server.stop()


@pytest.fixture
def tokens():
    server = identity.Server()
    yield server
    server.stop()


def options(azure, **more):
    # Its certificate is the test's own.
    return {"azure_storage_account_name": azurite.ACCOUNT, "azure_storage_endpoint": azure.service,
            "allow_invalid_certificates": "true", **more}


def load(azure, name, environment=None, **more):
    settings = {"destination": f"az://{CONTAINER}/{name}", "storage_options": options(azure, **more)}
    return target.load(settings, messages("t", rows(0, 5), {"at": 5}), env=environment or {})


def committed(azure, name):
    status, text = azure.request("GET", f"{CONTAINER}/{name}/t/_delta_log/{0:020}.json", connection=azure.connection)
    assert status == 200, text
    return [json.loads(line) for line in text.decode().splitlines()]


APPLICATION = {"azure_client_id": identity.CLIENT, "azure_tenant_id": identity.TENANT}


def test_an_application_with_a_secret(azure, tokens):
    more = {**APPLICATION, "azure_client_secret": identity.SECRET, "azure_authority_host": tokens.url}
    load(azure, "secret", **more).ok()
    assert tokens.asked == ["secret"] and any("add" in action for action in committed(azure, "secret"))


def test_an_application_of_the_environment(azure, tokens):
    environment = {"AZURE_CLIENT_ID": identity.CLIENT, "AZURE_TENANT_ID": identity.TENANT,
                   "AZURE_CLIENT_SECRET": identity.SECRET, "AZURE_AUTHORITY_HOST": tokens.url}
    load(azure, "environment", environment).ok()
    assert tokens.asked == ["secret"]


def test_a_workload(azure, tokens, tmp_path):
    file = tmp_path / "token"
    file.write_text(identity.FEDERATED)
    environment = {"AZURE_CLIENT_ID": identity.CLIENT, "AZURE_TENANT_ID": identity.TENANT,
                   "AZURE_FEDERATED_TOKEN_FILE": str(file), "AZURE_AUTHORITY_HOST": tokens.url}
    load(azure, "workload", environment).ok()
    assert tokens.asked == ["workload"]


def test_a_machine_and_an_identity_assigned_to_it(azure, tokens):
    endpoint = {"azure_msi_endpoint": f"{tokens.url}/metadata/identity/oauth2/token"}
    load(azure, "machine", **endpoint).ok()
    load(azure, "assigned", **endpoint, azure_client_id=identity.CLIENT).ok()
    assert tokens.asked == [("/metadata/identity/oauth2/token", None), ("/metadata/identity/oauth2/token", identity.CLIENT)]


def test_an_app_service(azure, tokens):
    environment = {"IDENTITY_ENDPOINT": f"{tokens.url}/app-service", "IDENTITY_HEADER": identity.APP_SERVICE}
    load(azure, "app-service", environment).ok()
    load(azure, "app-service-assigned", environment, azure_client_id=identity.CLIENT).ok()
    assert tokens.asked == [("/app-service", None), ("/app-service", identity.CLIENT)]


@pytest.fixture
def az(tmp_path):
    """A path on which `az` gives a token and notes how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "az"
    answer = json.dumps({"accessToken": identity.token(), "expires_on": int(time.time()) + 3600, "tokenType": "Bearer"})
    program.write_text(f"#!/bin/sh\necho \"$@\" >> {tmp_path}/calls\ncat <<'X'\n{answer}\nX\n")
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}, tmp_path / "calls"


def test_the_login_of_the_command_line(azure, az):
    environment, calls = az
    load(azure, "cli", environment, azure_use_azure_cli="true").ok()
    assert calls.read_text().splitlines() == ["account get-access-token -o json --scope https://storage.azure.com/.default"]


def test_the_login_of_the_command_line_is_found_where_the_machine_has_no_identity(azure, az):
    environment, calls = az
    load(azure, "found", environment).ok()
    assert len(calls.read_text().splitlines()) == 1


def test_no_identity_at_all_says_what_to_set(azure, tmp_path):
    (tmp_path / "sh").symlink_to("/bin/sh")
    result = load(azure, "none", {"PATH": str(tmp_path)}).refused("no Azure credentials", "az login", codes=(1,))
    assert not result.states


def test_a_load_outlasts_its_tokens(azure, tokens, tmp_path):
    """Tokens of four seconds, a load of twelve."""
    tokens.life = 4
    more = {**APPLICATION, "azure_client_secret": identity.SECRET, "azure_authority_host": tokens.url}
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"destination": f"az://{CONTAINER}/long", "storage_options": options(azure, **more),
                                  "state_interval_seconds": 1, "batch_size_rows": 5}))
    writer = subprocess.Popen([target.binary(), "--config", str(config)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=target.clean_environment())
    writer.stdin.write(target.as_input([target.schema("t", SCHEMA)]))
    for at in range(6):
        lines = messages("t", rows(at * 5, 5), {"at": at})[1:]
        writer.stdin.write(target.as_input(lines))
        writer.stdin.flush()
        time.sleep(2)
    stdout, stderr = writer.communicate(timeout=120)
    assert writer.returncode == 0, stderr.decode()
    assert json.loads(stdout.splitlines()[-1]) == {"at": 5}
    assert len(tokens.asked) >= 4, tokens.asked


def test_a_wrong_secret_is_named_and_not_shown(azure, tokens):
    more = {**APPLICATION, "azure_client_secret": "hunter2/hunter2", "azure_authority_host": tokens.url}
    result = load(azure, "wrong", **more).refused("AADSTS7000215", codes=(1,))
    assert "hunter2" not in result.stderr
    plain = options(azure, azure_storage_token="hunter2hunter2", azure_storage_endpoint="http://storage.example.com",
                    azure_allow_http="true")
    settings = {"destination": f"az://{CONTAINER}/x", "storage_options": plain}
    result = target.load(settings, messages("t", rows(0, 5), {})).refused("tokens are sent to encrypted", codes=(2,))
    assert "hunter2" not in result.stderr
