#!/bin/bash
# Adds BMv2 and p4c to the virtual machine from p4lang's packages (as root), where they exist.
set -euo pipefail

repository=https://download.opensuse.org/repositories/home:/p4lang
key=/etc/apt/keyrings/p4lang.asc

architecture=$(dpkg --print-architecture)
. /etc/os-release
if [[ $ID != ubuntu || ! $VERSION_ID =~ ^(20|22)\.04$ || $architecture != amd64 ]]; then
    echo "bmv2: p4lang packages BMv2 for Ubuntu 20.04 and 22.04 on amd64; this is $PRETTY_NAME on $architecture." >&2
    echo "bmv2: Xoff's own switch works here; to compare with BMv2, build it from source (docs/install.md)." >&2
    exit 1
fi

bash "${XOFF_SHARED:-/vagrant}/tools/vm-setup.sh"

export DEBIAN_FRONTEND=noninteractive
apt=(apt-get -qq -o DPkg::Lock::Timeout=300)
"${apt[@]}" update >/dev/null
"${apt[@]}" install -y --no-install-recommends ca-certificates curl >/dev/null
install -d -m 0755 /etc/apt/keyrings
curl --fail --silent --show-error --location --output "$key" "$repository/xUbuntu_$VERSION_ID/Release.key" || {
    echo "bmv2: the signing key of p4lang's packages could not be fetched from $repository" >&2
    exit 1
}
echo "deb [signed-by=$key] $repository/xUbuntu_$VERSION_ID/ /" >/etc/apt/sources.list.d/p4lang.list
"${apt[@]}" update >/dev/null
"${apt[@]}" install -y --no-install-recommends p4lang-p4c p4lang-bmv2 p4lang-pi >/dev/null

p4c-bm2-ss --version
echo "simple_switch_grpc $(simple_switch_grpc --version)"
if ! simple_switch_grpc --help 2>&1 | grep -q -- --priority-queues; then
    echo "bmv2: this simple_switch_grpc does not list --priority-queues; eight traffic classes need it" >&2
    exit 1
fi
