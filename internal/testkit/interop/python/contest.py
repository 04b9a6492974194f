"""Evidence that holders leave in a folder, as java/Contest.java says."""

import os
import random
import time


def exclusive(folder, who, czxid):
    log(folder, "begin exclusive", who, czxid)
    counter = os.path.join(folder, "counter")
    with open(counter) as file:
        n = int(file.read())
    work()
    with open(counter, "w") as file:
        file.write(str(n + 1))
    log(folder, "end exclusive", who, czxid)


def shared(folder, who, czxid):
    log(folder, "begin shared", who, czxid)
    work()
    log(folder, "end shared", who, czxid)


def work():
    """Takes up to half a millisecond, between what is read and what is written."""
    time.sleep(random.random() / 2000)


def log(folder, what, who, czxid):
    """Appends a line in one write, which the kernel puts in order with all others."""
    fd = os.open(os.path.join(folder, "log"), os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(fd, f"{what} {who} {czxid}\n".encode())
    finally:
        os.close(fd)
