#!/usr/bin/env python3
"""Checks the locked dependencies against deny.toml, without network: licences, banned crates, sources, one kernel."""
import json
import re
import subprocess
import sys
import tomllib

KERNEL = "buoyant_kernel"


def accepted(expression, allowed):
    """Whether an SPDX expression can be met by allowed licences alone."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either():
        nonlocal words
        value = both()
        while words and words[0] == "OR":
            words = words[1:]
            other = both()
            value = value or other
        return value

    def both():
        nonlocal words
        value = one()
        while words and words[0] == "AND":
            words = words[1:]
            other = one()
            value = value and other
        return value

    def one():
        nonlocal words
        word, words = words[0], words[1:]
        if word == "(":
            value = either()
            words = words[1:]
            return value
        if words and words[0] == "WITH":
            word = f"{word} WITH {words[1]}"
            words = words[2:]
        return word in allowed

    return either()


def main():
    with open("deny.toml", "rb") as f:
        rules = tomllib.load(f)
    allowed, banned = set(rules["licenses"]["allow"]), {b["crate"] for b in rules["bans"]["deny"]}
    packages = json.loads(subprocess.run(["cargo", "metadata", "--format-version", "1", "--locked"], check=True, capture_output=True).stdout)["packages"]
    wrong = []
    for p in packages:
        name = f"{p['name']} {p['version']}"
        if p["source"] is None:
            continue  # ours
        if not p["source"].startswith("registry+https://github.com/rust-lang/crates.io-index"):
            wrong.append(f"{name}: comes from {p['source']}")
        if p["name"] in banned:
            wrong.append(f"{name}: banned by deny.toml")
        if not p["license"] or not accepted(p["license"], allowed):
            wrong.append(f"{name}: licence {p['license']!r} is not allowed by deny.toml")
    kernels = [p["version"] for p in packages if p["name"] == KERNEL]
    if len(kernels) != 1:
        wrong.append(f"{KERNEL}: exactly one version is allowed, found {kernels}")
    print("\n".join(wrong) if wrong else f"dependencies: {len(packages)} packages checked, {KERNEL} {kernels[0]}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
