"""The machine of the soak: two hosts with a cable between them, and folders; all of it in namespaces of its own.

This process is in the server's network namespace and in a mount namespace: if it is killed, the kernel removes both.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SERVER, CLIENT = "10.98.0.1", "10.98.0.2"
NIC = "srv0"
RPS = f"class/net/{NIC}/queues/rx-0/rps_cpus"
# Bytes of the small file system: a recorder's smallest ring, twice.
SMALL = 4 << 20
_INSIDE = "RXLAB_SOAK_INSIDE"


def enter():
    """Goes on in new namespaces, in a new program with the same arguments."""
    if os.environ.pop(_INSIDE, None):
        return
    if os.geteuid() != 0:
        sys.exit("soak: needs root, for namespaces of its own")
    os.environ[_INSIDE] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--net", sys.executable, *sys.argv])


class Machine:
    """Makes the hosts and the folders; `close` removes them."""

    def __init__(self, children):
        self.work = Path(tempfile.mkdtemp(prefix="rxlab-soak-"))
        self.state, self.run, self.tmp, self.small, self.sys = (
            self.work / name for name in ("state", "run", "tmp", "small", "sys")
        )
        for path in (self.state, self.run, self.tmp, self.small, self.sys):
            path.mkdir(mode=0o700)
        _do("mount", "-t", "tmpfs", "-o", f"size={SMALL},mode=700", "soak", str(self.small))
        # The interfaces of this namespace: /sys shows others.
        _do("mount", "-t", "sysfs", "soak", str(self.sys))
        self.other = children.start(["unshare", "--net", "sleep", "infinity"])
        self._cable()
        self.original = self.value()

    def _cable(self):
        own = os.stat("/proc/self/ns/net").st_ino
        while os.stat(f"/proc/{self.other.pid}/ns/net").st_ino == own:
            pass
        _batch(
            f"""link set lo up
            link add {NIC} numrxqueues 2 numtxqueues 2 type veth peer name cli0 numrxqueues 1 numtxqueues 1
            link set cli0 netns {self.other.pid}
            address add {SERVER}/24 dev {NIC}
            link set {NIC} up"""
        )
        _batch(f"address add {CLIENT}/24 dev cli0\nlink set cli0 up\nlink set lo up", self.at_client())

    def at_client(self):
        """Command that runs another one on the client."""
        return ["nsenter", f"--net=/proc/{self.other.pid}/ns/net"]

    def environment(self):
        """The environment of the programs."""
        return os.environ | {
            "RXLAB_STATE_DIR": str(self.state),
            "RXLAB_RUN_DIR": str(self.run),
            "TMPDIR": str(self.tmp),
            "TERM": "xterm-256color",
        }

    def value(self):
        """What the changes change."""
        return (self.sys / RPS).read_text(encoding="ascii").strip()

    @staticmethod
    def add_interfaces(count):
        """Adds pairs of interfaces, `count` interfaces in all."""
        _batch("\n".join(f"link add soak{n}a group 42 type veth peer name soak{n}b" for n in range(count // 2)))

    @staticmethod
    def remove_interfaces():
        """Removes all of them."""
        _do("ip", "link", "delete", "group", "42")

    def fill(self):
        """Fills the small file system; returns the file to remove."""
        file = self.small / "filler"
        with file.open("wb", buffering=0) as out, contextlib.suppress(OSError):
            while out.write(bytes(4096)):
                pass
        return file

    def close(self):
        """Removes what was made."""
        for path in (self.sys, self.small):
            _do("umount", str(path))
        shutil.rmtree(self.work)


def _batch(lines, before=()):
    _do(*before, "ip", "-batch", "-", text="\n".join(line.strip() for line in lines.splitlines()) + "\n")


def _do(*command, text=""):
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
