#!/usr/bin/env bash
# Resolve pyproject.toml anew into scripts/requirements.txt: pinned, with hashes, without index addresses.
# Needs uv (pip install uv). One file serves Linux x86-64, Linux aarch64 and macOS arm64 as long as all three
# resolve to the same versions; the script stops and shows the difference when they do not. Versions already pinned
# stay; with the argument --upgrade all move to the newest that fit. The peers' file marks what only some platforms need.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for platform in x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin; do
  cp scripts/requirements.txt "$folder/$platform.txt"
  uv pip compile pyproject.toml --extra dev --extra cluster --extra images --extra peers --quiet --python-version 3.11 --python-platform "$platform" \
    --generate-hashes --no-strip-extras --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
    --output-file "$folder/$platform.txt" "$@" >/dev/null
done
for other in aarch64-manylinux_2_28 aarch64-apple-darwin; do
  diff "$folder/x86_64-manylinux_2_28.txt" "$folder/$other.txt"
done
{
  echo "# Made by scripts/refresh_requirements.sh from pyproject.toml for Python 3.11; do not edit."
  cat "$folder/x86_64-manylinux_2_28.txt"
} >scripts/requirements.txt
cp scripts/requirements-peers.txt "$folder/peers.txt"
uv pip compile scripts/requirements-peers.in --universal --quiet --python-version 3.11 --generate-hashes --no-strip-extras --no-header \
  --no-annotate --no-emit-index-url --no-emit-find-links --output-file "$folder/peers.txt" "$@" >/dev/null
{
  echo "# Made by scripts/refresh_requirements.sh from scripts/requirements-peers.in for Python 3.11; do not edit."
  cat "$folder/peers.txt"
} >scripts/requirements-peers.txt
