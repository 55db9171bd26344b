#!/bin/bash
# Provisions the virtual machine of the Vagrantfile (as root): sources from the shared folder, then `make setup`.
set -euo pipefail
shared=${XOFF_SHARED:-/vagrant}
home=${XOFF_HOME:-/home/vagrant}

export DEBIAN_FRONTEND=noninteractive
if ! command -v make >/dev/null || ! command -v rsync >/dev/null; then
    apt-get -qq -o DPkg::Lock::Timeout=300 update >/dev/null
    apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends make rsync >/dev/null
fi
# A copy, because shared folders of several providers take no symbolic links, which Python environments need.
rsync --archive --no-owner --no-group --exclude=.venv --exclude=.venv-shell --exclude=.vagrant --exclude=runs \
    "$shared/" "$home/xoff/"
make -C "$home/xoff" setup
if id vagrant >/dev/null 2>&1; then
    chown -R vagrant: "$home/xoff"
fi
echo "ready: vagrant ssh, then: cd xoff && sudo make demo"
