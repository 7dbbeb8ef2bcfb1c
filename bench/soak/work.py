"""What goes on next to the programs that stay: changes, and what disturbs them."""

import http.client
import os
import signal
import threading
import time

from machine import NIC

SET = ["--set", f"rps {NIC}/rx-0 = 0-1"]
# How long a program is stopped.
STOPPED = 8


class Work:
    """Threads that do rounds until `stop`; `failures` has what went wrong, `rounds` how often each was done."""

    def __init__(self, children, machine, residents, program, interfaces, rng):
        self._children, self._machine, self._residents = children, machine, residents
        self._program, self._interfaces, self._rng = program, interfaces, rng
        self.stop = threading.Event()
        self.failures = []
        self.rounds = {}
        self._threads = [
            threading.Thread(target=self._rotate, args=(rounds,), name=name)
            for name, rounds in {
                "changes": (
                    self._apply_and_undo,
                    self._doctor,
                    self._deadline,
                    self._killed_apply,
                    self._trial,
                    self._killed_trial,
                    self._stopped_guard,
                    self._killed_guard,
                    self._full_disk,
                ),
                "interfaces": (self._interfaces_come_and_go,),
                "clients": (self._scrape, self._read_page, self._read_events),
                "signals": (self._stopped, self._killed_recorder, self._killed_server),
            }.items()
        ]

    def begin(self):
        """Starts the threads."""
        for thread in self._threads:
            thread.start()

    def end(self):
        """Waits for the rounds that are going on."""
        self.stop.set()
        for thread in self._threads:
            thread.join()

    def _rotate(self, rounds):
        while not self.stop.is_set():
            for one in rounds:
                name = one.__name__.strip("_").replace("_", " ")
                try:
                    one()
                except (OSError, RuntimeError, AssertionError, http.client.HTTPException) as error:
                    self.failures.append(f"{name}: {error!r}")
                self.rounds[name] = self.rounds.get(name, 0) + 1
                if self.stop.wait(1):
                    return

    # Changes. Only this thread writes to the machine, so each round finds and leaves the original value.

    def _run(self, *arguments, codes=(0,), **options):
        done = self._children.run([self._program, *arguments], env=self._machine.environment(), **options)
        is_killed = done.code is None and "kill_after" in options
        if "panicked at" in done.said or not (is_killed or done.code in codes):
            self.failures.append(f"{done.command}: exit code {done.code}: {done.said[-2000:]}")
        return done

    def _expect_original(self, within=0.0):
        end = time.monotonic() + within
        while (value := self._machine.value()) != self._machine.original:
            if time.monotonic() > end:
                raise RuntimeError(f"{NIC} has {value}, not {self._machine.original}")
            time.sleep(0.1)

    def _apply_and_undo(self):
        self._run("apply", *SET)
        assert self._machine.value() != self._machine.original
        self._run("status")
        self._run("undo")
        self._expect_original()
        self._run("history")

    def _doctor(self):
        self._run("doctor", "--for", "1s", "-v", codes=(0, 1))
        self._run("show")
        self._run("record", "status")

    def _deadline(self):
        self._run("apply", *SET, "--confirm", "2s")
        self._expect_original(within=20)

    def _killed_apply(self):
        self._run("apply", *SET, kill_after=self._rng.uniform(0, 0.06))
        self._run("undo")
        self._expect_original()

    def _trial(self, **options):
        pairs = ["--pairs", "9", "--washout", "100ms", "--measure", "300ms"]
        self._run("trial", "run", *SET, "--live", "--nic", NIC, *pairs, codes=(0, 1), **options)
        self._expect_original(within=20)

    def _killed_trial(self):
        self._trial(kill_after=self._rng.uniform(1, 6))
        self._run("undo")

    def _guard(self):
        """The guard of the change that was just made."""
        guards = [pid for pid, command in self._children.adopted() if " guard " in f"{command} "]
        if len(guards) != 1:
            raise RuntimeError(f"there are {len(guards)} guards of one change")
        return guards[0]

    def _stopped_guard(self):
        self._run("apply", *SET, "--confirm", "3s")
        guard = self._guard()
        os.kill(guard, signal.SIGSTOP)
        time.sleep(5)
        self._run("status", codes=(1,))
        os.kill(guard, signal.SIGCONT)
        self._expect_original(within=20)

    def _killed_guard(self):
        self._run("apply", *SET, "--confirm", "30s")
        os.kill(self._guard(), signal.SIGKILL)
        self._run("undo")
        self._expect_original()

    def _full_disk(self):
        filler = self._machine.fill()
        try:
            small = ["--state-dir", str(self._machine.small)]
            # Refused, or done with the space that was set aside.
            self._run(*small, "apply", *SET, codes=(0, 5))
            self._run(*small, "undo")
            self._expect_original()
            # The recorder meets the full disk too.
            self.stop.wait(10)
        finally:
            filler.unlink()

    # What disturbs them.

    def _interfaces_come_and_go(self):
        self._machine.add_interfaces(self._interfaces)
        self.stop.wait(20)
        self._machine.remove_interfaces()
        self.stop.wait(10)

    def _get(self, address, path, seconds=0.0):
        """Reads a page, or a stream for some seconds."""
        connection = http.client.HTTPConnection(address, timeout=60)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            if response.status != 200:
                raise RuntimeError(f"{path}: status {response.status}")
            end = time.monotonic() + seconds
            while response.read1(65536) and (not seconds or time.monotonic() < end):
                pass
        finally:
            connection.close()

    def _scrape(self):
        self._get(self._residents.exporter, "/metrics")

    def _read_page(self):
        self._get(self._residents.page, "/")

    def _read_events(self):
        self._get(self._residents.page, "/events", seconds=self._rng.uniform(1, 10))

    def _stopped(self):
        one = self._rng.choice(self._residents.may_stop).child
        one.send_signal(signal.SIGSTOP)
        self.stop.wait(STOPPED)
        one.send_signal(signal.SIGCONT)

    def _killed_recorder(self):
        """The next one begins with the torn log of this one."""
        self._run("--state-dir", str(self._machine.work / "killed"), "record", "--size", "2M", kill_after=5)

    def _killed_server(self):
        command = self._rng.choice([["serve"], ["exporter", "--every", "1s"]])
        self._run(*command, "--listen", "127.0.0.1:0", kill_after=5)
