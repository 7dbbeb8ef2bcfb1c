"""A program that stays and leaks what it is told: standin.py nothing|memory|descriptors|threads|bpf_objects|files FOLDER"""

import os
import sys
import threading
import time
from pathlib import Path

sys.dont_write_bytecode = True
import kernel_objects

leak, folder = sys.argv[1], Path(sys.argv[2])
kept = []
while True:
    match leak:
        case "memory":
            kept.append(os.urandom(1 << 20))
        case "descriptors":
            kept.append(os.open("/dev/null", os.O_RDONLY))
        case "threads":
            threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
        case "bpf_objects":
            kept.append(kernel_objects.new_map())
        case "files":
            kept.append((folder / str(len(kept))).write_bytes(b""))
    time.sleep(0.2)
