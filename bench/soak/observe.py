"""What a process and a folder hold, as /proc and the file system say."""

import os
import re
import statistics

# Of these, a note has the median of its samples.
MEMORY = ("rss_kib", "pss_kib", "anonymous_kib")
# Of these, a note has the lowest of its samples: what is open for a moment only is not a leak.
COUNTS = ("descriptors", "bpf_objects", "namespaces", "threads", "files", "bytes")

_BPF = re.compile(r"anon_inode:(bpf|btf|\[?bpf)")
_NAMESPACE = re.compile(r"(cgroup|ipc|mnt|net|pid|time|user|uts):\[")


def process(pid):
    """One sample of a process. Raises OSError if it has ended."""
    memory = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            memory[name] = value
    links = []
    for descriptor in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{descriptor}"))
        except FileNotFoundError:
            pass  # Closed since it was listed.
    return {
        "rss_kib": int(memory["Rss"].split()[0]),
        "pss_kib": int(memory["Pss"].split()[0]),
        "anonymous_kib": int(memory["Anonymous"].split()[0]),
        "descriptors": len(links),
        "bpf_objects": sum(bool(_BPF.match(link)) for link in links),
        "namespaces": sum(bool(_NAMESPACE.match(link)) for link in links),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
    }


def folder(path):
    """One sample of a folder: files in it and below, and their bytes."""
    files = size = 0
    for name in names(path):
        try:
            size += os.lstat(os.path.join(path, name)).st_size
        except FileNotFoundError:
            continue  # Removed since it was listed.
        files += 1
    return {"files": files, "bytes": size}


def names(path):
    """Paths of the files in a folder and below, relative to it."""
    return [
        os.path.relpath(os.path.join(at, name), path) for at, _, files in os.walk(path) for name in files
    ]


def note(samples):
    """Samples of one subject as one row."""
    return {
        name: int(statistics.median(values) if name in MEMORY else min(values))
        for name in samples[0]
        if (values := [sample[name] for sample in samples])
    }
