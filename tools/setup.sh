#!/bin/bash
# Prepares a machine for Xoff: Debian packages, .venv with the pinned libraries, .venv-shell with p4runtime-shell.
# Called by every make target that needs it. When nothing has changed since the last time, it ends at once.
# With --check it changes nothing: it succeeds if nothing is to be done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Debian's mininet is a module of the system's Python, so the environment is made from that one.
python=/usr/bin/python3
oldest=3.10
stamp=.venv/xoff-setup

# Without these there is no environment at all.
needed=(python3-venv ca-certificates)
# With these there are Mininet fabrics, optimised switches, and tools to look into them.
wanted=(mininet gcc libc6-dev ethtool iproute2 iputils-ping procps tcpdump)

say() { echo "setup: $*"; }
fail() {
    echo "setup: $*" >&2
    exit 1
}

missing_of() {
    local package
    for package in "$@"; do
        dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || echo "$package"
    done
}

install_packages() {
    export DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes
    local options=(-qq -o DPkg::Lock::Timeout=300)
    say "installing Debian packages: $*"
    # Recommended packages stay out: mininet's would bring Open vSwitch and its daemon.
    apt-get "${options[@]}" update >/dev/null ||
        fail "apt-get update failed (see above); check the network and /etc/apt"
    apt-get "${options[@]}" install -y --no-install-recommends "$@" >/dev/null ||
        fail "apt-get could not install: $* (see above)"
}

content() {
    cat tools/setup.sh requirements/*.txt pyproject.toml | sha256sum | cut -d' ' -f1
    "$python" --version
    pwd
    # With the lists of packages: another call has nothing to do only if they are still there.
    echo "${absent[@]:-complete}"
}

pip_install() {
    local environment=$1
    shift
    "$environment/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@" ||
        fail "the Python packages of $environment could not be installed (see above); they come from PyPI"
}

fresh_environment() {
    local environment=$1
    shift
    rm -rf "$environment"
    "$python" -m venv "$@" "$environment" || fail "$environment could not be made (see above)"
}

# One set-up at a time; a second one waits here and then finds everything done.
exec 9<tools/setup.sh
flock 9

mapfile -t absent < <(missing_of "${needed[@]}" "${wanted[@]}" 2>/dev/null)
if [[ -x $python && -f $stamp ]] && [[ $(content) == "$(<"$stamp")" ]]; then
    if ((${#absent[@]} == 0 || EUID != 0)); then
        exit 0
    fi
fi

if [[ ${1:-} == --check ]]; then
    exit 1
fi

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    fail "this machine has no apt; Xoff is set up on Debian 12 or 13 and Ubuntu 22.04 or 24.04"
fi
if ((${#absent[@]})); then
    if ((EUID == 0)); then
        install_packages "${absent[@]}"
        mapfile -t absent < <(missing_of "${needed[@]}" "${wanted[@]}")
    else
        say "missing Debian packages: ${absent[*]}" >&2
        say "an administrator installs them with: apt-get install --no-install-recommends ${absent[*]}" >&2
        mapfile -t blocking < <(missing_of "${needed[@]}")
        ((${#blocking[@]} == 0)) || fail "without ${blocking[*]} nothing can be set up"
        say "going on without them" >&2
        if [[ " ${absent[*]} " == *" mininet "* ]]; then
            say "without mininet, fabrics in Mininet do not run here" >&2
        fi
    fi
fi
if [[ -e .venv && ! -w .venv ]]; then
    fail ".venv belongs to $(stat -c %U .venv) and is out of date; that user brings it up to date with make setup"
fi
"$python" -c "import sys; sys.exit(sys.version_info < tuple(map(int, '$oldest'.split('.'))))" ||
    fail "$python is $("$python" --version); Xoff needs Python $oldest or newer"

version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if [[ ! -x .venv/bin/python || ! -d .venv/lib/python$version ]]; then
    say "making .venv (Python $version)"
    fresh_environment .venv --system-site-packages
fi
rm -f "$stamp"
say "installing the pinned Python packages in .venv"
pip_install .venv -r requirements/lab.txt -r requirements/dev.txt
pip_install .venv --no-deps --no-build-isolation --editable .

if [[ ! -x .venv-shell/bin/python || ! -d .venv-shell/lib/python$version ]]; then
    say "making .venv-shell for p4runtime-shell"
    fresh_environment .venv-shell
fi
pip_install .venv-shell -r requirements/shell.txt

if [[ " ${absent[*]} " != *" mininet "* ]]; then
    .venv/bin/python -c 'import mininet.net' ||
        fail "mininet is installed but $python cannot import it (see above)"
fi
content >"$stamp"
say "done"
