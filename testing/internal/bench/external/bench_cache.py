"""Fills a TreeCache of kazoo and prints how long that took as a line of JSON, for a line of input.

Arguments: connect string, path.
"""

import gc
import json
import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.cache import TreeCache, TreeEvent


def resident():
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main():
    connect, path = sys.argv[1:3]
    client = KazooClient(connect, timeout=40)
    client.start()
    sys.stdin.readline()
    full = threading.Event()
    nodes = []

    def listen(event):
        if event.event_type == TreeEvent.NODE_ADDED:
            nodes.append(None)
        if event.event_type == TreeEvent.INITIALIZED:
            full.set()

    cache = TreeCache(client, path)
    cache.listen(listen)
    before = resident()
    began = time.perf_counter()
    cache.start()
    full.wait()
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "nodes": len(nodes), "memory": resident() - before}), flush=True)
    sys.stdin.readline()
    cache.close()
    client.stop()


main()
