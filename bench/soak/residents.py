"""The programs that stay running: each is noted from the first to the last minute."""

import fcntl
import os
import pty
import struct
import termios
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen

from children import Children
from machine import SERVER, Machine

ROWS, COLUMNS = 30, 100
# Every key of the screen that opens a view; with 4, programs that lose time are measured.
KEYS = b"123456"


@dataclass
class Resident:
    """A program that stays, and the exit codes with which a signal may end it."""

    name: str
    child: Popen
    said: Path
    codes: tuple[int, ...] = (0,)

    def complaints(self):
        """The end of what it has said."""
        return self.said.read_text(encoding="utf-8", errors="replace")[-2000:]

    def panics(self):
        """A line for each thread of it that has panicked, however long ago."""
        lines = self.said.read_text(encoding="utf-8", errors="replace").splitlines()
        return [f"{self.name}: {line}" for line in lines if "panicked at" in line]


class Residents:
    """Starts them all, in the namespace of the server."""

    def __init__(self, children: Children, machine: Machine, program: str, seconds: float):
        self.all = []
        self._children, self._machine, self._program = children, machine, program
        self._start("record", "record", "--every", "200ms", "--size", "4M")
        small = ["--state-dir", str(machine.small)]
        self._start("record on a full disk", *small, "record", "--every", "200ms", "--size", "2M")
        self.exporter = self._address(self._start("exporter", "exporter", "--listen", "127.0.0.1:0", "--every", "2s"))
        self.page = self._address(self._start("serve", "serve", "--listen", "127.0.0.1:0", "--every", "500ms"))
        self._start("status --watch", "status", "--watch", codes=(0, 1))
        self._start("doctor --watch", "doctor", "--watch", "--for", "2s", codes=(0, 1))
        self._top()
        # Those above may be stopped for some seconds; the two below would miss their rate.
        self.may_stop = list(self.all)
        target = self._start("target", "target", "--udp-echo", f"{SERVER}:0")
        url = self._first_line(target).split()[-1]
        load = ["load", url, "--rate", "1000", "--connections", "16", "--for", f"{seconds + 600:.0f}s"]
        self._start("load", *load, codes=(0, 1, 130), at=machine.at_client())

    def _start(self, name, *arguments, codes=(0,), at=(), **options):
        said = self._machine.work / f"{name.replace(' ', '-')}.said"
        with said.open("wb") as out:
            streams = {"stdin": DEVNULL, "stdout": out, "stderr": out} | options
            child = self._children.start(
                [*at, self._program, *arguments], env=self._machine.environment(), **streams
            )
        resident = Resident(name, child, said, codes)
        self.all.append(resident)
        return resident

    def _top(self):
        keyboard, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._start("top", "top", "--every", "500ms", codes=(130,), stdin=screen, stdout=screen)
        os.close(screen)
        threading.Thread(target=_watch, args=(keyboard,), daemon=True).start()
        threading.Thread(target=_type, args=(keyboard,), daemon=True).start()

    def _first_line(self, resident):
        for _ in range(300):
            text = resident.said.read_text(encoding="utf-8")
            if "\n" in text:
                return text.splitlines()[0]
            if resident.child.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"{resident.name} does not start: {resident.complaints()}")

    def _address(self, resident):
        """Address of a server: host and port."""
        return self._first_line(resident).split("//")[1].split("/")[0]

    def ended(self):
        """A line for each that has ended by itself."""
        return [
            f"{resident.name} ended with {code}: {resident.complaints()}"
            for resident in self.all
            if (code := resident.child.poll()) is not None
        ]

    def end(self):
        """Ends them all; returns a line for each that did not end as it should."""
        lines = []
        for resident in reversed(self.all):
            code = self._children.end(resident.child)
            if code not in resident.codes:
                lines.append(f"{resident.name}: exit code {code} after SIGTERM: {resident.complaints()}")
        return lines + self.panics()

    def panics(self):
        """A line for each thread that has panicked."""
        return [line for one in self.all for line in one.panics()]


def _watch(keyboard):
    try:
        while os.read(keyboard, 65536):
            pass
    except OSError:
        pass  # The program has ended.


def _type(keyboard):
    try:
        while True:
            for key in KEYS:
                os.write(keyboard, bytes([key]))
                time.sleep(5)
    except OSError:
        pass
