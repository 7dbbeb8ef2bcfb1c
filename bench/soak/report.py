"""The notes as a file of comma-separated values, and what came of them as text."""

import csv
import datetime
import os
import platform
import subprocess

import judge
from observe import COUNTS, MEMORY

COLUMNS = [*MEMORY, *COUNTS]


def write(arguments, taken, limits, rounds, failures):
    """Writes both files, and prints the text."""
    table = arguments.out.with_suffix(".csv")
    with table.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["minute", "subject", *COLUMNS])
        for minute, note in taken:
            for name, values in note.items():
                rows.writerow([f"{minute:.1f}", name, *(values.get(column, "") for column in COLUMNS)])
    text = "\n".join([*_head(arguments, taken), "", *_table(taken, limits), "", *_end(rounds, failures)]) + "\n"
    arguments.out.write_text(text, encoding="utf-8")
    print(text, end="")


def _head(arguments, taken):
    version = subprocess.run([arguments.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    minutes = taken[-1][0] if taken else 0
    return [
        f"bench/soak/run.py --minutes {arguments.minutes:g} --interfaces {arguments.interfaces} --seed {arguments.seed}",
        f"{datetime.date.today()}, {version}; {os.cpu_count()} CPUs, Linux {platform.release()}; "
        f"{len(taken)} notes in {minutes:.0f} minutes",
        "Medians of memory (KiB), lowest counts, in the second and the last third of the notes. Growth that is slower than",
        "`unseen` (KiB an hour), or below a limit (<), is not found: a longer run finds slower growth.",
    ]


def _table(taken, limits):
    yield f"{'':32}{'anonymous memory':>20}{'unseen':>10}{'descriptors':>14}{'BPF':>10}{'threads':>10}{'files':>10}"
    names = dict.fromkeys(name for _, note in taken for name in note)
    for name in names:
        rows = [note[name] for _, note in taken if name in note]
        if len(rows) < 3:
            continue
        second, last = judge.thirds(rows)
        cells = [("descriptors", 14), ("bpf_objects", 10), ("threads", 10), ("files", 10)]
        memory = f"{_cell(second, last, 'anonymous_kib'):>20}{_unseen(second, limits.get(name, {}), taken[-1][0]):>10}"
        yield f"{name:32}" + memory + "".join(f"{_cell(second, last, value):>{width}}" for value, width in cells)


def _unseen(second, limits, minutes):
    """Slowest growth of memory that is seen; nothing is, below a limit."""
    if "anonymous_kib" not in second[0]:
        return ""
    if "anonymous_kib" in limits:
        return f"<{limits['anonymous_kib']}"
    return round(judge.unseen(judge.middle(second, "anonymous_kib"), minutes))


def _cell(second, last, value):
    if value not in second[0]:
        return ""
    if value in MEMORY:
        return f"{judge.middle(second, value)} {judge.middle(last, value)}"
    return " ".join(str(min(note[value] for note in part)) for part in (second, last))


def _end(rounds, failures):
    yield "Rounds: " + ", ".join(f"{count} {name}" for name, count in rounds.items())
    yield from failures or ["Nothing grew, and nothing was left."]
