"""The processes that are started, and those that these leave behind."""

import ctypes
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass

PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Done:
    """How a command ended; `code` is None if it was killed as it did not end in time."""

    command: str
    code: int | None
    said: str


class Children:
    """Starts processes, and adopts those of their children that outlive them."""

    def __init__(self):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._lock = threading.Lock()
        self._started = {}

    def start(self, command, **options):
        """Starts a process that dies with the thread that starts it."""
        with self._lock:
            child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], start_new_session=True, **options
            )
            self._started[child.pid] = child
        return child

    def run(self, command, limit=120, kill_after=None, **options):
        """Runs a command to its end, or kills it after `kill_after` seconds."""
        child = self.start(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options
        )
        # What it leaves behind may keep the pipe open, so that only its own end counts.
        said = bytearray()
        reader = threading.Thread(target=_drain, args=(child.stdout, said), daemon=True)
        reader.start()
        try:
            code = child.wait(kill_after if kill_after is not None else limit)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            code = None
        reader.join(1)
        self.forget(child)
        return Done(" ".join(command), code, said.decode(errors="replace"))

    def forget(self, child):
        """Ends the bookkeeping of a process that has ended."""
        with self._lock:
            self._started.pop(child.pid, None)

    def adopted(self):
        """Processes that outlived their parents: (pid, command). Reaps those that have ended."""
        found = []
        with self._lock:
            for pid, state in _children():
                if pid in self._started:
                    continue
                if state == "Z":
                    os.waitpid(pid, 0)
                else:
                    found.append((pid, command_of(pid)))
        return found

    def end(self, child, limit=20):
        """Ends a process with SIGTERM; returns its exit code, or None if it had to be killed."""
        child.send_signal(signal.SIGCONT)
        child.terminate()
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            code = None
        self.forget(child)
        return code

    def kill_all(self):
        """Kills whatever still runs, adopted or not."""
        with self._lock:
            started = list(self._started.values())
        for child in started:
            child.kill()
            child.wait()
            self.forget(child)
        while adopted := self.adopted():
            for pid, _ in adopted:
                os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)


def _drain(pipe, into):
    while part := pipe.read1(65536):
        into += part


def _children():
    """Children of this process: (pid, state)."""
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(parent) == os.getpid():
            yield int(name), state


def command_of(pid):
    """The command line of a process, or an empty text if it has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""
