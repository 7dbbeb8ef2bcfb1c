"""The invariant: after warm-up, nothing grows."""

import statistics

from observe import MEMORY

# Memory may differ by this share and by this much: an allocator keeps some of what it was given back.
SHARE, ROOM_KIB = 0.05, 1024


def thirds(notes):
    """The second and the last third of the notes; the first is the warm-up."""
    third = len(notes) // 3
    return notes[third:-third], notes[-third:]


def middle(notes, name):
    """The median of a value."""
    return int(statistics.median(note[name] for note in notes))


def room(before):
    """By how much memory may grow between the two thirds, KiB."""
    return before * SHARE + ROOM_KIB


def unseen(before, minutes):
    """Slower growth than this, KiB an hour, is not seen in so many minutes: the thirds lie a third of them apart."""
    return room(before) / (minutes / 3) * 60


def grown(subject, notes, limits):
    """A line for each value of a subject that grew, or was above its limit if it has one."""
    second, last = thirds(notes)
    lines = []
    for name in second[0]:
        if name in limits:
            most = max(note[name] for note in notes)
            if most > limits[name]:
                lines.append(f"{subject}: {name} was {most}, more than its limit of {limits[name]}")
            continue
        if name in MEMORY:
            before, after = middle(second, name), middle(last, name)
            # Pages of the program come and go with the page cache.
            is_grown = name == "anonymous_kib" and after > before + room(before)
        else:
            before, after = (min(note[name] for note in part) for part in (second, last))
            is_grown = after > before
        if is_grown:
            lines.append(f"{subject}: {name} grew from {before} to {after}")
    return lines
