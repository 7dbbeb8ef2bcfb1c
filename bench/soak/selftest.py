"""Whether leaks are found: each stand-in leaks one thing."""

import sys
import tempfile
from pathlib import Path

import kernel_objects
import notes
from children import Children

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
    if wrong:
        print(f"soak: wrong about stand-ins: {', '.join(wrong)}", file=sys.stderr)
        return 1
    return 0


def _is_right(leak, lines):
    named = NAMED[leak]
    own = [line for line in lines if line.startswith((f"{leak}:", f"files of {leak}:"))]
    if named is None:
        return not own
    return any(f": {named} grew from " in line for line in own)
