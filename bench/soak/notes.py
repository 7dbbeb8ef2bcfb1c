"""A row for each program and folder and minute."""

import time
from dataclasses import dataclass

import judge
import observe

# Seconds between two samples, and most seconds of a note.
EVERY, NOTE = 1, 60
# Fewest notes: six in each third.
LEAST = 18


@dataclass
class Subjects:
    """What is observed: processes and folders by name, and by name limits of values that go up and down."""

    processes: dict[str, int]
    folders: dict[str, object]
    limits: dict[str, dict[str, int]]

    def sample(self):
        """One sample of each that is still there."""
        samples = {}
        for name, pid in self.processes.items():
            try:
                samples[name] = observe.process(pid)
            except (FileNotFoundError, ProcessLookupError):
                continue
        return samples | {name: observe.folder(path) for name, path in self.folders.items()}

    def judge(self, taken):
        """A line for each value that grew, or is above its limit."""
        lines = []
        for name in [*self.processes, *self.folders]:
            rows = [note[name] for _, note in taken if name in note]
            if len(rows) < 3:
                lines.append(f"{name}: too few notes to judge: {len(rows)}")
            else:
                lines += judge.grown(name, rows, self.limits.get(name, {}))
        return lines


def take(subjects, seconds, ended, every=EVERY):
    """Notes for so many seconds, or until `ended` returns something: a list of (minute, {subject: values})."""
    length = min(NOTE, max(every, seconds / LEAST))
    begin = time.monotonic()
    taken, samples = [], []
    while (passed := time.monotonic() - begin) < seconds and not ended():
        samples.append(subjects.sample())
        if passed >= length * (len(taken) + 1):
            taken.append((passed / 60, _note(samples)))
            samples = []
        time.sleep(every)
    return taken


def _note(samples):
    names = [name for name in samples[0] if all(name in sample for sample in samples)]
    return {name: observe.note([sample[name] for sample in samples]) for name in names}
