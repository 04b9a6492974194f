"""Takes turns at a lock of kazoo as it is told, and prints what it has counted as a line of JSON.

Arguments: connect string, path, clients, threads of each, leases, readers of ten (0: it has no turns
of one lock that read and write as Curator's), "turns", milliseconds to count turns for, after half of
that to warm up.
"""

import json
import sys
import threading
import time

from kazoo.client import KazooClient


class Count:
    def __init__(self, limit):
        self.limit = limit
        self.inside = 0
        self.overlaps = 0
        self.mutex = threading.Lock()

    def enter(self):
        with self.mutex:
            self.inside += 1
            if self.inside > self.limit:
                self.overlaps += 1

    def leave(self):
        with self.mutex:
            self.inside -= 1


def main():
    connect, path = sys.argv[1:3]
    clients, threads, leases, _readers = map(int, sys.argv[3:7])
    seconds = int(sys.argv[8]) / 1000
    count = Count(max(leases, 1))
    state = {"begun": None, "over": False}
    everything = []
    turns, failures, started, connected = [], [], [], []

    def run(client):
        lock = client.Semaphore(path, max_leases=leases) if leases else client.Lock(path)
        try:
            while not state["over"]:
                began = time.perf_counter()
                lock.acquire()
                entered = time.perf_counter()
                count.enter()
                count.leave()
                lock.release()
                everything.append(began)
                if state["begun"] is not None and entered > state["begun"]:
                    turns.append((entered - began, time.perf_counter() - began))
        except Exception as e:  # told at the end
            failures.append(e)

    for _ in range(clients):
        client = KazooClient(connect)
        client.start()
        connected.append(client)
        for _ in range(threads):
            started.append(threading.Thread(target=run, args=(client,)))
    for thread in started:
        thread.start()
    time.sleep(seconds / 2)
    cpu = time.process_time()
    state["begun"] = time.perf_counter()
    time.sleep(seconds)
    state["over"] = True
    for thread in started:
        thread.join()
    elapsed = time.perf_counter() - state["begun"]
    cpu = time.process_time() - cpu
    if failures:
        raise failures[0]
    waits = sorted(t[0] * 1e6 for t in turns)
    whole = sorted(t[1] * 1e6 for t in turns)

    def percentile(values, p):
        return values[min(len(values) * p // 100, len(values) - 1)] if values else 0

    print(json.dumps({
        "all": len(everything), "turns": len(turns), "seconds": elapsed, "overlaps": count.overlaps,
        "wait_p50_us": percentile(waits, 50), "wait_p99_us": percentile(waits, 99),
        "turn_p50_us": percentile(whole, 50), "client_cpu_us_per_turn": cpu * 1e6 / max(len(turns), 1),
    }))
    for client in connected:
        client.stop()


main()
