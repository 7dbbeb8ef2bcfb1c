"""What is left after the end of all programs."""

import re
import time

import kernel_objects
import observe

# Files that stay: the journal's archive, trials, and a ring of recordings.
KEPT = re.compile(
    r"journal/archive/[^/]+\.jsonl|journal/(?:reserve|boot)|trials/[^/]+/[a-z]+\.(?:json|jsonl|toml)"
    r"|record/(?:[0-9]+\.(?:log|packed)|reserve|lock)"
)
# The kernel frees some objects a moment after their last holder is gone; guards end at their deadline.
PATIENCE = 40


def behind(children, machine, program, before):
    """A line for each thing that is left."""
    status = children.run([program, "status"], env=machine.environment())
    lines = [] if status.code == 0 else [f"status at the end: exit code {status.code}: {status.said}"]
    if machine.value() != machine.original:
        lines.append(f"the value is {machine.value()}, not {machine.original}")
    end = time.monotonic() + PATIENCE
    while (found := _found(children, machine, before)) and time.monotonic() < end:
        time.sleep(1)
    return lines + found


def _found(children, machine, before):
    objects, mounts = before
    others = {machine.other.pid}
    lines = [f"process left: {command}" for pid, command in children.adopted() if pid not in others]
    new = kernel_objects.loaded() - objects
    lines += [f"BPF {kind} left: {number}" for kind, number in sorted(new - kernel_objects.held())]
    lines += [f"mount left: {line.strip()}" for line in sorted(kernel_objects.mounts() - mounts)]
    lines += [f"temporary file left: {name}" for name in observe.names(machine.tmp)]
    for state in (machine.state, machine.small, machine.work / "killed"):
        lines += [f"file left in {state.name}: {name}" for name in observe.names(state) if not KEPT.fullmatch(name)]
    return lines
