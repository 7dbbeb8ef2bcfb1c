#!/usr/bin/env python3
"""Runs the programs of rxlab that stay running for a long time, next to changes, trials, kills, stops, a full disk and
interfaces that come and go, and checks that nothing grows and nothing is left.

    bench/soak/run.py [--minutes N] [--program FILE] [--interfaces N] [--seed N] [--out FILE.txt]
    bench/soak/run.py --self-test        whether leaks of stand-ins are found; some seconds

As root; everything happens in namespaces of its own, and ends with it. Every second it takes a sample of each program
and folder; a note is a minute of them (less in a run shorter than 20 minutes). The first third of the notes is the warm-up.
From the second to the last third, no count may grow, and the median of the anonymous memory by 5 % and 1 MiB at most: what
grows more slowly needs a longer run. What a recorder takes goes up and down, and has a limit instead. A run of less than ten
minutes is too short to judge memory. A program that ends by itself, an unexpected exit code, or a process, BPF program,
mount or file that is left is a failure too.

The notes are in FILE.csv. Exit code 1 after a failure, 130 after Ctrl-C.
"""

import argparse
import random
import signal
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
import kernel_objects
import left
import notes
import report
import selftest
from children import Children
from machine import Machine, enter
from residents import Residents
from work import Work

TREE = Path(__file__).resolve().parents[2]

# A ring is as large as it may be, in segments of any number. Packing one takes 256 MiB at most, now and then, next to
# what is known of the machine.
_RING, _RECORDER = {"bytes": 4 << 20, "files": 100}, {"anonymous_kib": 384 << 10}
LIMITS = {
    "record": _RECORDER,
    "record on a full disk": _RECORDER,
    "files of record": _RING,
    "files of record on a full disk": _RING,
}


def main():
    arguments = parse()
    if arguments.self_test:
        sys.exit(selftest.run())
    enter()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    children = Children()
    machine = Machine(children)
    try:
        failures = soak(arguments, children, machine)
    except KeyboardInterrupt:
        print("soak: interrupted", file=sys.stderr)
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        children.kill_all()
        machine.close()
    sys.exit(1 if failures else 0)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--program", default=TREE / "target/release/rxlab", type=Path)
    parser.add_argument("--interfaces", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=TREE / "bench/results/soak.txt", type=Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    arguments.program, arguments.out = arguments.program.resolve(), arguments.out.resolve()
    if not arguments.self_test and not arguments.program.exists():
        parser.error(f"no program at {arguments.program}: make build")
    return arguments


def soak(arguments, children, machine):
    """The whole run; returns the failures."""
    before = kernel_objects.loaded(), kernel_objects.mounts()
    program, seconds = str(arguments.program), arguments.minutes * 60
    residents = Residents(children, machine, program, seconds)
    work = Work(children, machine, residents, program, arguments.interfaces, random.Random(arguments.seed))
    subjects = notes.Subjects(
        processes={resident.name: resident.child.pid for resident in residents.all},
        folders={
            "files of record": machine.state / "record",
            "files of record on a full disk": machine.small,
            "files of the lock": machine.run,
            "temporary files": machine.tmp,
        },
        limits=LIMITS,
    )

    def ended():
        children.adopted()  # Reaps guards that have ended.
        return residents.ended()

    work.begin()
    try:
        taken = notes.take(subjects, seconds, ended)
    finally:
        work.end()
    failures = subjects.judge(taken) + residents.ended() + work.failures + residents.end()
    failures += left.behind(children, machine, program, before)
    report.write(arguments, taken, LIMITS, work.rounds, failures)
    return failures


main()
