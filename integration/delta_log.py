"""What a table's `_delta_log` says, read straight from its files: the tests' own view, with no Delta library in between."""
import glob
import json
import os
import re


def commit_files(table):
    """The JSON commits of `table`, oldest first."""
    names = glob.glob(os.path.join(glob.escape(str(table)), "_delta_log", "*.json"))
    return sorted(n for n in names if re.fullmatch(r"\d{20}\.json", os.path.basename(n)))


def commits(table):
    """One list of actions per JSON commit, oldest first."""
    out = []
    for name in commit_files(table):
        with open(name, encoding="utf-8") as f:
            out.append([json.loads(line) for line in f if line.strip()])
    return out


def version(table):
    """The newest version that has a JSON commit; -1 where there is none."""
    files = commit_files(table)
    return int(os.path.basename(files[-1])[:20]) if files else -1


def newest(table, kind):
    """The newest action of that kind: from the commits, else from the newest checkpoint; None where there is none."""
    for actions in reversed(commits(table)):
        for action in reversed(actions):
            if action.get(kind) is not None:
                return action[kind]
    checkpoints = sorted(glob.glob(os.path.join(glob.escape(str(table)), "_delta_log", "*.checkpoint*.parquet")))
    if checkpoints:
        import pyarrow.parquet

        newest_version = os.path.basename(checkpoints[-1])[:20]
        for part in (c for c in checkpoints if os.path.basename(c).startswith(newest_version)):
            parquet = pyarrow.parquet.ParquetFile(part)
            if kind in parquet.schema_arrow.names:
                for value in parquet.read(columns=[kind]).column(kind).to_pylist():
                    if value is not None:
                        return value
    return None


def schema(table):
    """The table's schema as Delta's JSON."""
    return json.loads(newest(table, "metaData")["schemaString"])


def partition_columns(table):
    return list(newest(table, "metaData")["partitionColumns"])


def live_adds(table):
    """The add actions that stand at the newest version (JSON commits only: the log of a table that a test made)."""
    live = {}
    for actions in commits(table):
        for action in actions:
            for kind in ("remove", "add"):
                value = action.get(kind)
                if value is not None:
                    vector = value.get("deletionVector") or {}
                    key = (value["path"], vector.get("storageType"), vector.get("pathOrInlineDv"), vector.get("offset"))
                    live.pop(key, None)
                    if kind == "add":
                        live[key] = value
    return list(live.values())


def statistics(add):
    """An add action's statistics, floats kept as text so that no digit is lost."""
    return json.loads(add["stats"], parse_float=str) if add.get("stats") else {}


def columns_with_bounds(table):
    """The leaf columns, as tuples of names, for which some live file has a minimum or a maximum."""
    found = set()

    def walk(node, at):
        for name, value in node.items():
            if isinstance(value, dict):
                walk(value, at + (name,))
            elif value is not None:
                found.add(at + (name,))

    for add in live_adds(table):
        stats = statistics(add)
        walk(stats.get("minValues") or {}, ())
        walk(stats.get("maxValues") or {}, ())
    return sorted(found)


def fingerprint(directory):
    """Every file below `directory` with its bytes, every folder with its mode: equal means untouched."""
    out = {}
    for root, folders, files in os.walk(directory):
        for name in folders:
            path = os.path.join(root, name)
            out[os.path.relpath(path, directory) + "/"] = os.lstat(path).st_mode
        for name in files:
            path = os.path.join(root, name)
            with open(path, "rb") as f:
                out[os.path.relpath(path, directory)] = f.read()
    return out
