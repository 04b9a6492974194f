"""Runs kazoo's own tests, which its Debian package has, against a server that is there.

The arguments are the server's address and the name of a module of kazoo.tests.
Standard output has a line for each test, its words separated by tabs: its name, and
"ok", or "skipped" or "failed" with the reason.

Neither pytest nor mock is needed: of the first the tests use raises and skip, and the
second is a part of Python.
"""

import os
import re
import sys
import types
import unittest
import unittest.mock

ELSEWHERE = {
    "TestReconfig": "changes an ensemble; kazoo 2.8 does not survive the refusal of a server that is alone",
    "TestReadOnlyMode": "stops two of three servers",
    "test_connection_dropped": "expects that the server takes longer to answer than the client to hang up",
}


class Raises:
    """What pytest.raises returns."""

    def __init__(self, expected):
        self.expected = expected
        self.value = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            raise AssertionError("%s was not raised" % (self.expected,))
        self.value = value
        return issubclass(kind, self.expected)


def raises(expected, function=None, *args, **kwargs):
    if function is None:
        return Raises(expected)
    with Raises(expected) as raised:
        function(*args, **kwargs)
    return raised


def skip(reason):
    raise unittest.SkipTest(reason)


pytest = types.ModuleType("pytest")
pytest.raises, pytest.skip = raises, skip
sys.modules.update({"pytest": pytest, "mock": unittest.mock})

import kazoo.testing.harness  # after pytest and mock  # noqa: E402


class Server:
    """The server, in the place of one that the harness of the tests can start and stop."""

    running = True

    def __init__(self, address):
        self.address = address

    def stop(self):
        skip("stops the server")

    run = destroy = stop


class Report(unittest.TestResult):
    def tell(self, test, *words):
        print("\t".join([test.id()] + [re.sub(r"\s+", " ", str(word)) for word in words]), flush=True)

    def addSuccess(self, test):
        self.tell(test, "ok")

    def addSkip(self, test, reason):
        self.tell(test, "skipped", reason)

    def addFailure(self, test, failure):
        self.tell(test, "failed", failure[0].__name__, failure[1])

    addError = addFailure


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def main(address, module):
    cluster = [Server(address)]
    kazoo.testing.harness.get_global_cluster = lambda: cluster
    report = Report()
    for test in each(unittest.defaultTestLoader.loadTestsFromName("kazoo.tests." + module)):
        reasons = [reason for name, reason in ELSEWHERE.items() if name in test.id()]
        if reasons:
            report.tell(test, "skipped", reasons[0])
        else:
            test.run(report)


main(*sys.argv[1:])
os._exit(0)  # whatever threads the tests have left
