"""Saves of 64 tensors of 4 MiB by others, as one line of JSON: torch.distributed.checkpoint (DCP), safetensors, cp and sync.

    build/against/python bench/against/checkpoint_peer.py DIRECTORY       the directory must be on the disk to measure
"""
import json
import os
import pathlib
import subprocess
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
folder = pathlib.Path(sys.argv[1])
folder.mkdir()
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "RANK": "0", "WORLD_SIZE": "1"}
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(1)
state = {f"tensor{i}": torch.randn(1 << 20) for i in range(64)}


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def synced(file):
    with open(file, "rb") as opened:
        os.fsync(opened.fileno())


def by_safetensors(name):
    save_file(state, folder / name)
    synced(folder / name)


def asynchronously(name):
    future = None

    def begin():
        nonlocal future
        future = dcp.async_save(state, checkpoint_id=folder / name)

    blocked = seconds(begin)
    return blocked, blocked + seconds(future.result)


result = {}
by_safetensors("warm")
result["safetensors"] = seconds(lambda: by_safetensors("timed"))
dcp.save(state, checkpoint_id=folder / "dcp_warm")
result["dcp"] = seconds(lambda: dcp.save(state, checkpoint_id=folder / "dcp_timed"))
asynchronously("async_warm")
result["dcp_async_blocked"], result["dcp_async"] = asynchronously("async_timed")
copy = lambda: subprocess.run(["bash", "-c", f"cp {folder}/timed {folder}/copy && sync {folder}/copy {folder}"], check=True)
result["cp"] = seconds(copy)
print(json.dumps(result))
