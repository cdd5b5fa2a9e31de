"""Runs the binary under test as a Singer target, and says what a table must hold after it."""
import datetime
import json
import os
import re
import subprocess
import tempfile
from decimal import Decimal

import readers


def binary():
    path = os.environ.get("DELTA_LOAD_BIN")
    assert path, "set DELTA_LOAD_BIN to the delta-load binary (bash .ci/run does)"
    assert os.access(path, os.X_OK), f"DELTA_LOAD_BIN={path} is not an executable file"
    return os.path.abspath(path)


class Result:
    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    @property
    def states(self):
        return [json.loads(line) for line in self.stdout.splitlines()]

    def ok(self):
        assert self.code == 0, f"exit {self.code}\n{self.stderr}"
        return self

    def refused(self, *words, codes=(1, 2)):
        """Asserts a clear refusal: its exit code, an `error:` line, each of the words, and no crash."""
        assert self.code in codes, f"exit {self.code}, expected one of {codes}\n{self.stderr}"
        assert re.search(r"^error: ", self.stderr, re.M), f"no error line\n{self.stderr}"
        assert "panicked" not in self.stderr, self.stderr
        for word in words:
            assert word.lower() in self.stderr.lower(), f"the error does not name {word!r}\n{self.stderr}"
        return self


def clean_environment(**more):
    """This process's environment without settings of the target, so that a test sees its own only."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("TARGET_DELTA_", "DELTA_LOAD_", "SINGER_SDK_LOG"))}
    return {**kept, **more}


def as_input(messages):
    """Messages (dicts, or text and bytes as they are) as the bytes of a Singer stream."""
    if isinstance(messages, (bytes, str)):
        return messages.encode() if isinstance(messages, str) else messages
    lines = []
    for m in messages:
        lines.append(m if isinstance(m, bytes) else (m if isinstance(m, str) else json.dumps(m)).encode())
    return b"".join(line.rstrip(b"\n") + b"\n" for line in lines)


def load(config, messages, *, env=None, prefix=(), cwd=None, timeout=300):
    """One run of the target. `prefix`: words before the command, `setpriv …` for example."""
    with tempfile.NamedTemporaryFile("w", suffix=".json", dir=cwd) as f:
        json.dump(config, f)
        f.flush()
        os.chmod(f.name, 0o644)
        done = subprocess.run([*prefix, binary(), "--config", f.name], input=as_input(messages), capture_output=True,
                              env=clean_environment(**(env or {})), cwd=cwd, timeout=timeout)
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace"))


def schema(stream, properties, keys=(), **more):
    return {"type": "SCHEMA", "stream": stream, "key_properties": list(keys),
            "schema": {"type": "object", "properties": properties}, **more}


def record(stream, values, **more):
    return {"type": "RECORD", "stream": stream, "record": values, **more}


def state(value):
    return {"type": "STATE", "value": value}


def stored(value, delta_type):
    """A JSON value of a record as a column of that Delta type must hold it, in the readers' normalised form."""
    if value is None:
        return None
    if isinstance(delta_type, dict):
        if delta_type["type"] == "struct":
            return {f["name"]: stored(value.get(f["name"]), f["type"]) for f in delta_type["fields"]}
        if delta_type["type"] == "array":
            return [stored(v, delta_type["elementType"]) for v in value]
        return {k: stored(v, delta_type["valueType"]) for k, v in value.items()}
    if delta_type in ("double", "float"):
        return repr(float(value))
    if delta_type.startswith("decimal"):
        scale = readers.decimal_digits(delta_type)[1]
        return format(Decimal(str(value)).quantize(Decimal(1).scaleb(-scale)), "f")
    if delta_type == "timestamp":
        moment = datetime.datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=readers.UTC)
        return moment.astimezone(readers.UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
    if delta_type == "string" and not isinstance(value, str):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return value


def expected_rows(records, table, **constants):
    """The rows that an append of these records must give in `table`, by the types that the table declares."""
    fields = readers.delta_log.schema(table)["fields"]
    return [{f["name"]: stored({**r, **constants}.get(f["name"]), f["type"]) for f in fields} for r in records]
