"""A process that does with kazoo what it is told.

Standard input has one command a line, its words separated by tabs: a number, the
name of an actor, the command, its arguments. Standard output has the answer, in any
order: the number, "ok" or "error", the results.

An actor is a thread with a kazoo client of its own; it begins with the first command
that names it. The process ends with its input. What the commands are is said at Actor.
"""

import os
import queue
import re
import sys
import threading
import traceback

import kazoo.version
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

import contest
import recipes

output = threading.Lock()


def answer(*words):
    line = "\t".join(re.sub(r"[\t\r\n]", " ", word) for word in words) + "\n"
    with output:
        sys.stdout.write(line)
        sys.stdout.flush()


class Actor(threading.Thread):
    """One thread with one client.

    version                          kazoo's
    connect ADDRESS/CHROOT TIMEOUT   session id; the timeout in milliseconds
    close
    lock NAME PATH [PATTERN...]      makes a lock that later commands call NAME
    write-lock, read-lock NAME PATH
    semaphore NAME PATH MAX
    acquire NAME [TIMEOUT]           node and czxid; nothing when the time, in ms, was too short
    release NAME
    participants NAME                their identifiers, in the order of the queue
    contend NAME FOLDER TURNS        see contest.py
    share NAME FOLDER TURNS
    recipes ADDRESS/CHROOT           what came of each of kazoo's recipes; see recipes.py
    """

    def __init__(self, name):
        super().__init__(name=name, daemon=True)
        self.commands = queue.Queue()
        self.client = None
        self.locks = {}
        self.start()

    def run(self):
        while True:
            number, command, args = self.commands.get()
            try:
                results = getattr(self, "do_" + command.replace("-", "_"))(*args)
                answer(number, "ok", *[str(r) for r in results or ()])
            except Exception as failure:
                traceback.print_exc()
                answer(number, "error", type(failure).__name__, str(failure))

    def do_version(self):
        return [kazoo.version.__version__]

    def do_connect(self, hosts, timeout):
        self.client = KazooClient(hosts, timeout=int(timeout) / 1000)
        self.client.start()
        return [self.client.client_id[0]]

    def do_close(self):
        if self.client:
            self.client.stop()
            self.client.close()
            self.client = None

    def do_lock(self, name, path, *patterns):
        self.locks[name] = self.client.Lock(path, self.name, extra_lock_patterns=patterns)

    def do_write_lock(self, name, path):
        self.locks[name] = self.client.WriteLock(path, self.name)

    def do_read_lock(self, name, path):
        self.locks[name] = self.client.ReadLock(path, self.name)

    def do_semaphore(self, name, path, leases):
        self.locks[name] = self.client.Semaphore(path, self.name, max_leases=int(leases))

    def do_acquire(self, name, timeout=None):
        try:
            self.locks[name].acquire(timeout=timeout and int(timeout) / 1000)
        except LockTimeout:
            return []
        return self.hold(name)

    def hold(self, name):
        """Returns path and czxid of the node of a lock that is held."""
        lock = self.locks[name]
        path = lock.create_path if hasattr(lock, "max_leases") else lock.path + "/" + lock.node
        return [path, self.client.exists(path).czxid]

    def do_release(self, name):
        self.locks[name].release()

    def do_participants(self, name):
        lock = self.locks[name]
        return lock.lease_holders() if hasattr(lock, "max_leases") else lock.contenders()

    def do_contend(self, name, folder, turns):
        self.take_turns(contest.exclusive, name, folder, turns)

    def do_share(self, name, folder, turns):
        self.take_turns(contest.shared, name, folder, turns)

    def take_turns(self, kind, name, folder, turns):
        for _ in range(int(turns)):
            self.locks[name].acquire()
            kind(folder, self.name, self.hold(name)[1])
            self.locks[name].release()

    def do_recipes(self, hosts):
        return recipes.all_of_them(hosts)


def main():
    actors = {}
    for line in sys.stdin:
        number, name, command, *args = line.rstrip("\n").split("\t")
        if name not in actors:
            actors[name] = Actor(name)
        actors[name].commands.put((number, command, args))
    sys.stdout.flush()
    os._exit(0)  # the sessions that are still open are the driver's to miss


main()
