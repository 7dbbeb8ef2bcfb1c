"""BPF programs and links of the whole kernel and who holds them, and mounts."""

import ctypes
import errno
import os
import platform

_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]
_MAP_CREATE, _NEXT_ID = 0, {"program": 11, "link": 31}
_HELD = {"prog_id": "program", "link_id": "link"}


def _bpf(command, attributes):
    return ctypes.CDLL(None, use_errno=True).syscall(_BPF, command, ctypes.byref(attributes), ctypes.sizeof(attributes))


def new_map():
    """A descriptor of a map of one entry, or -1."""
    # BPF_MAP_TYPE_ARRAY, sizes of key and value, entries, flags
    return _bpf(_MAP_CREATE, (ctypes.c_uint32 * 5)(2, 4, 4, 1, 0))


def loaded():
    """Every program and link: a set of (kind, id). Raises OSError without CAP_SYS_ADMIN: an empty set would look clean."""
    found = set()
    for kind, command in _NEXT_ID.items():
        # start_id, next_id, open_flags
        attributes = (ctypes.c_uint32 * 3)()
        while _bpf(command, attributes) == 0:
            found.add((kind, attributes[1]))
            attributes[0] = attributes[1]
        if (number := ctypes.get_errno()) != errno.ENOENT:
            raise OSError(number, f"cannot list the BPF {kind}s: {os.strerror(number)}")
    return found


def held():
    """Those that a process of this machine has open."""
    found = set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            for descriptor in os.listdir(f"/proc/{name}/fdinfo"):
                with open(f"/proc/{name}/fdinfo/{descriptor}", encoding="utf-8", errors="replace") as lines:
                    for line in lines:
                        key, _, value = line.partition(":")
                        if key in _HELD:
                            found.add((_HELD[key], int(value)))
        except OSError:
            continue  # Ended or closed since it was listed.
    return found


def mounts():
    """The mounts of this mount namespace."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        return set(lines)
