"""Whether leaks are found: each stand-in leaks one thing. And whether the checks fail where they should."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import judge
import kernel_objects
import notes
from children import Children
from residents import Resident

STANDIN = Path(__file__).with_name("standin.py")
# What is named for each leak.
NAMED = {
    "nothing": None,
    "memory": "anonymous_kib",
    "descriptors": "descriptors",
    "threads": "threads",
    "files": "files",
    "bpf_objects": "bpf_objects",
}
SECONDS, EVERY = 9, 0.25


def run():
    """Runs all stand-ins at once; returns the exit code."""
    children = Children()
    leaks = [leak for leak in NAMED if leak != "bpf_objects" or kernel_objects.new_map() >= 0]
    with tempfile.TemporaryDirectory() as work:
        started, folders = {}, {}
        try:
            for leak in leaks:
                folders[f"files of {leak}"] = Path(work) / leak
                folders[f"files of {leak}"].mkdir()
                command = [sys.executable, str(STANDIN), leak, str(Path(work) / leak)]
                started[leak] = children.start(command)
            subjects = notes.Subjects({leak: child.pid for leak, child in started.items()}, folders, {})
            taken = notes.take(subjects, SECONDS, lambda: False, every=EVERY)
            lines = subjects.judge(taken)
            wrong = [leak for leak in leaks if not _is_right(leak, lines)]
            wrong += [leak for leak, child in started.items() if child.poll() is not None]
        finally:
            children.kill_all()
    print(*lines, sep="\n")
    wrong += [check.__name__ for check in (_slow_leaks, _early_panics, _hidden_objects) if not check()]
    if wrong:
        print(f"soak: wrong about: {', '.join(wrong)}", file=sys.stderr)
        return 1
    return 0


def _is_right(leak, lines):
    named = NAMED[leak]
    own = [line for line in lines if line.startswith((f"{leak}:", f"files of {leak}:"))]
    if named is None:
        return not own
    return any(f": {named} grew from " in line for line in own)


def _slow_leaks():
    """Memory that grows faster than what is said not to be seen is found, and slower growth is not."""
    minutes = 30

    def is_found(share):
        rate = share * judge.unseen(80_000, minutes) / 60
        rows = [{"anonymous_kib": 80_000 + int(rate * minute)} for minute in range(-minutes // 2, minutes // 2)]
        return bool(judge.grown("a program", rows, {}))

    return is_found(1.1) and not is_found(0.9)


def _early_panics():
    """A panic is found, however much is said after it."""
    with tempfile.NamedTemporaryFile("w", suffix=".said") as said:
        said.write("thread 'main' panicked at src/x.rs:1:1:\n" + 1000 * "still here\n")
        said.flush()
        return len(Resident("a program", None, Path(said.name)).panics()) == 1


def _hidden_objects():
    """Without the right to list BPF objects, none is no answer."""
    if os.geteuid() != 0:
        return True
    code = f"import sys; sys.path.insert(0, {str(STANDIN.parent)!r}); import kernel_objects; kernel_objects.loaded()"
    command = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", sys.executable, "-B", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "cannot list the BPF programs" in done.stderr
