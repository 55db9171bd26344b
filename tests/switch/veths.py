"""Veth pairs in a network namespace of a test's own, and raw frames in and out of them."""

import os
import select
import subprocess
import time
from contextlib import contextmanager, suppress

from switch.native.ports import open_port


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Veths:
    """Pairs s1/h1, s2/h2, …: `s` for the switch, `h` for the test. Names are namespace-qualified."""

    def __init__(self, namespace, count):
        self.namespace = namespace
        self.count = count
        self._hosts = {}

    def switch(self, number):
        return f"{self.namespace}/s{number}"

    def host(self, number):
        """The test's packet socket at pair `number`."""
        if number not in self._hosts:
            self._hosts[number] = open_port(f"{self.namespace}/h{number}")
        return self._hosts[number]

    def listen(self):
        """Open the test's ends and forget what they have received so far."""
        for number in range(1, self.count + 1):
            sock = self.host(number)
            while select.select([sock], [], [], 0)[0]:
                with suppress(OSError):  # told once that the interface went down
                    sock.recv(1)

    def receive(self, number, timeout=5.0):
        """The next frame that arrives at the test's end; None when none comes in time."""
        sock = self.host(number)
        if not select.select([sock], [], [], timeout)[0]:
            return None
        return sock.recv(20000)

    def receive_all(self, number, count, timeout=10.0):
        """`count` frames, or as many as come in time."""
        frames = []
        deadline = time.monotonic() + timeout
        while len(frames) < count and (left := deadline - time.monotonic()) > 0:
            frame = self.receive(number, left)
            if frame is not None:
                frames.append(frame)
        return frames

    def link(self, name, *words):
        """`ip link set` on an interface of the namespace."""
        ip("-n", self.namespace, "link", "set", name, *words)

    def close(self):
        for sock in self._hosts.values():
            sock.close()


@contextmanager
def veth_pairs(tag, count, mtu=9216):
    """`count` pairs, up and silent; gone afterwards."""
    namespace = f"xoff-{tag}-{os.getpid()}"
    ip("netns", "add", namespace)
    try:
        quiet = "net.ipv6.conf.all.disable_ipv6=1"
        ip("netns", "exec", namespace, "sysctl", "-qw", quiet, "net.ipv6.conf.default.disable_ipv6=1")
        pairs = Veths(namespace, count)
        for number in range(1, count + 1):
            names = (f"s{number}", f"h{number}")
            ip(
                "-n",
                namespace,
                "link",
                "add",
                names[0],
                "mtu",
                str(mtu),
                "type",
                "veth",
                "peer",
                names[1],
                "mtu",
                str(mtu),
            )
            for name in names:
                pairs.link(name, "up", "arp", "off")
        pairs.listen()
        yield pairs
        pairs.close()
    finally:
        ip("netns", "delete", namespace)
