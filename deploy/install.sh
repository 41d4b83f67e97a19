#!/bin/sh
# Make the virtual environment $1 with the packages of uv.lock, and this project in it.
# Whatever is missing is said in one line; the packages' own output is in $1/install.log.
set -u
venv=$1

fail() {
    echo "spotsieve set-up: $1" >&2
    exit 1
}

is_supported() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' >/dev/null 2>&1
}

find_python() {
    for name in ${PYTHON:-python3.13 python3.12 python3.11 python3 python3.14 python}; do
        if is_supported "$name"; then
            echo "$name"
            return
        fi
    done
}

if ! is_supported "$venv/bin/python"; then
    python=$(find_python)
    [ -n "$python" ] || fail "needs Python 3.11 to 3.14 (python3 --version); install it, or say make PYTHON=/path/to/python3"
    echo "spotsieve set-up: making $venv with $("$python" --version 2>&1)"
    rm -rf "$venv"
    if ! said=$("$python" -m venv "$venv" 2>&1); then
        case $said in
            *ensurepip* | *"No module named venv"*)
                fail "needs Python's venv module; on Debian or Ubuntu: apt-get install python3-venv" ;;
            *) fail "$python -m venv $venv failed: $(echo "$said" | tail -n 1)" ;;
        esac
    fi
fi

# A newer pip may be there, but the one that came with Python reads the lock as well, and needs no network.
# pip installs, since it follows the index or mirror that this machine is set to; uv only writes the list with hashes.
install_locked() {
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --require-hashes -r deploy/uv.txt &&
        "$venv/bin/uv" export --quiet --frozen --no-emit-project --no-header --no-annotate --all-extras --group dev \
            --output-file "$venv/requirements.txt" &&
        "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --require-hashes -r "$venv/requirements.txt"
}

case "$("$venv/bin/python" -c 'import platform, sys; print(sys.platform, platform.machine())')" in
    "linux x86_64" | "linux aarch64" | "darwin arm64" | "") ;;
    *) fail "uv.lock has packages for Linux (x86_64, aarch64) and macOS (arm64) only" ;;
esac
echo "spotsieve set-up: fetching 600 MB of locked packages into $venv, once: 2 minutes at 50 Mbit/s, and 1 to install them"
if ! install_locked >"$venv/install.log" 2>&1; then
    why=$(grep -iE 'no space|hash|no matching distribution|could not find a version|failed building' "$venv/install.log" |
        tail -n 1)
    case $why in
        *[Nn]o\ space*) fail "the disk is full; free 2 GB and run the same command again" ;;
        *HASH* | *hash*) fail "a package does not match uv.lock: $why" ;;
    esac
    if grep -qiE 'connection|timed out|resolve|network|proxy|ssl' "$venv/install.log"; then
        fail "the package registry cannot be reached; connect to the network (or set its proxy) and run the same command again ($venv/install.log)"
    fi
    fail "pip could not install the locked packages: ${why:-see $venv/install.log}"
fi
if ! "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps --no-index \
    --no-build-isolation --editable . >>"$venv/install.log" 2>&1; then
    fail "pip could not install this project: $(tail -n 1 "$venv/install.log") ($venv/install.log)"
fi
# mypy finds packages by folders, not by what is installed: this is the project's folder under its import name.
mkdir -p "$venv/links" && ln -sfn "$PWD" "$venv/links/spotsieve"
echo "spotsieve set-up: compiling the kernels of the default scheme, once: 1 to 3 minutes"
"$venv/bin/python" -m spotsieve.stream.warm spotsieve 2>>"$venv/install.log" ||
    fail "the kernels could not be compiled: $(tail -n 1 "$venv/install.log") ($venv/install.log)"
touch "$venv/.installed"
