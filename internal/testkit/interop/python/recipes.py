"""Everything that kazoo is made for, once each, on two clients.

A function whose name begins with recipe_ returns what came of one recipe, in the same
words whatever the server, so that two servers can be compared. In place of a result
there may be the name of the exception that ended it.
"""

import queue
import threading
from datetime import timedelta

from kazoo.client import KazooClient
from kazoo.recipe.cache import TreeCache
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl, make_digest_acl_credential

LIMIT = 30  # seconds that anything may take


def all_of_them(hosts):
    one, two = connect(hosts), connect(hosts)
    try:
        results = []
        for name, recipe in sorted(globals().items()):
            if not name.startswith("recipe_"):
                continue
            path = "/" + name[len("recipe_"):]
            try:
                result = recipe(one, two, path)
            except Exception as failure:
                result = f"{type(failure).__name__} {failure}"
            results.append(f"{path[1:]}: {result}")
        return results
    finally:
        for client in (one, two):
            client.stop()
            client.close()


def connect(hosts, **options):
    client = KazooClient(hosts, timeout=10.0, **options)
    client.start(LIMIT)
    return client


def later(function, *args):
    """Runs the function in another thread; the result is a function that waits for its."""
    result = queue.Queue()

    def run():
        try:
            result.put(function(*args))
        except Exception as failure:
            result.put(type(failure).__name__)

    threading.Thread(target=run, daemon=True).start()
    return lambda: result.get(timeout=LIMIT)


def until(client, condition):
    """Asks until the condition holds."""
    retry = KazooRetry(max_tries=-1, delay=0.005, backoff=1, max_delay=0.005, deadline=LIMIT)

    def ask():
        if not condition():
            raise retry.retry_exceptions[0]()

    retry(ask)


def error_of(function, *args, **options):
    """Returns the name of the exception that the call ends with, or its result."""
    try:
        return function(*args, **options)
    except Exception as failure:
        return type(failure).__name__


def recipe_acl(one, two, path):
    auth = ("digest", "alice:secret")
    acl = make_digest_acl("alice", "secret", read=True, write=True)
    one.create(path, b"private", acl=[acl])
    refused = [error_of(two.get, path), error_of(two.set, path, b""), error_of(two.get_acls, path)]
    owner = connect_like(one, auth_data=[auth])
    try:
        allowed = owner.get(path)[0]
        cannot_administer = error_of(owner.set_acls, path, [acl])
    finally:
        owner.stop()
        owner.close()
    two.add_auth(*auth)
    everything = [make_digest_acl("alice", "secret", all=True)]
    two.create(path + "-all", b"", acl=everything)
    version = two.set_acls(path + "-all", everything).aversion
    acls, stat = two.get_acls(path + "-all")
    same = acls[0].id.id == make_digest_acl_credential("alice", "secret")
    bad = error_of(two.set_acls, path + "-all", everything, version=7)
    return refused, allowed, cannot_administer, two.get(path)[0], version, stat.acl_version, acls[0].perms, same, bad


def connect_like(client, **options):
    hosts = ",".join(f"{host}:{port}" for host, port in client.hosts) + client.chroot
    return connect(hosts, **options)


def recipe_barrier(one, two, path):
    barrier = one.Barrier(path)
    free = two.Barrier(path).wait(0)
    barrier.create()
    early = two.Barrier(path).wait(0.02)
    passed = later(two.Barrier(path).wait, LIMIT)
    return free, early, barrier.remove(), passed(), barrier.remove()


def recipe_counter(one, two, path):
    first, second = one.Counter(path), two.Counter(path)
    first += 2
    second -= 5
    ratio = one.Counter(path + "-float", default=1.0)
    ratio += 0.5
    return first.value, second.value, first.pre_value, first.post_value, ratio.value, one.get(path)[0]


def recipe_data(one, two, path):
    stat = one.create(path + "/a/b", b"1", makepath=True, include_data=True)[1]
    changed = one.set(path + "/a/b", b"22", version=0)
    results = [
        stat.version, stat.dataLength, changed.version, changed.mzxid > stat.mzxid,
        error_of(one.create, path, b""), error_of(one.create, path + "/none/x", b""),
        error_of(one.set, path + "/a/b", b"", version=0), error_of(one.delete, path + "/a"),
        error_of(one.delete, path + "/a/b", version=7), error_of(one.get, path + "/none"), one.exists(path + "/none"),
        one.create(path + "/s-", sequence=True), one.create(path + "/s-", sequence=True, ephemeral=True),
        error_of(one.create, path + "/s-0000000002/child"), sorted(two.get_children(path)),
        two.get_children(path, include_data=True)[1].numChildren, two.sync(path),
        one.ensure_path(path + "/a/b/c"), one.delete(path + "/a", recursive=True), one.exists(path + "/a"),
        two.exists(path + "/s-0000000002").owner_session_id == one.client_id[0],
    ]
    return results


def recipe_data_watch(one, two, path):
    seen = queue.Queue()

    @one.DataWatch(path)
    def watch(data, stat, event):
        seen.put((data, stat and stat.version, event and event.type))

    events = [seen.get(timeout=LIMIT)]
    for change in (
        lambda: two.create(path, b"a"), lambda: two.set(path, b"b"), lambda: two.delete(path), lambda: two.create(path, b"c"),
    ):
        change()
        events.append(seen.get(timeout=LIMIT))
    return events


def recipe_children_watch(one, two, path):
    two.ensure_path(path)
    seen = queue.Queue()

    @one.ChildrenWatch(path, send_event=True)
    def watch(children, event):
        seen.put((sorted(children), event and event.type))

    events = [seen.get(timeout=LIMIT)]
    for change in (
        lambda: two.create(path + "/a"), lambda: two.create(path + "/b"), lambda: two.delete(path + "/a"),
    ):
        change()
        events.append(seen.get(timeout=LIMIT))
    return events


def recipe_double_barrier(one, two, path):
    first, second = one.DoubleBarrier(path, 2, "one"), two.DoubleBarrier(path, 2, "two")
    entered = later(first.enter)
    until(one, lambda: len(one.get_children(path)) == 1 if one.exists(path) else False)
    second.enter()
    entered()
    both = first.participating, second.participating
    left = later(first.leave)
    second.leave()
    left()
    return both, first.participating, second.participating, one.get_children(path)


def recipe_election(one, two, path):
    order = []
    go_on = threading.Event()
    leads = threading.Event()

    def lead(name):
        order.append(name)
        leads.set()
        go_on.wait(LIMIT)

    first, second = one.Election(path, "one"), two.Election(path, "two")
    ended = later(first.run, lead, "one")
    leads.wait(LIMIT)
    also = later(second.run, lead, "two")
    until(one, lambda: len(first.contenders()) == 2)
    contenders = first.contenders()
    go_on.set()
    ended()
    also()
    return contenders, order, first.contenders()


def recipe_lease(one, two, path):
    first = one.NonBlockingLease(path, timedelta(seconds=60), identifier="one")
    second = two.NonBlockingLease(path, timedelta(seconds=60), identifier="two")
    return bool(first), bool(second)


def recipe_lock(one, two, path):
    first, second = one.Lock(path, "one"), two.Lock(path, "two")
    held = first.acquire()
    busy = second.acquire(blocking=False)
    late = error_of(second.acquire, timeout=0.02)
    waiting = later(second.acquire)
    until(one, lambda: len(first.contenders()) == 2)
    contenders = first.contenders()
    released = first.release()
    got = waiting()
    cancelled = one.Lock(path, "three")
    waiting = later(cancelled.acquire)
    until(one, lambda: len(second.contenders()) == 2)
    cancelled.cancel()
    return held, busy, late, contenders, released, got, waiting(), second.release(), first.contenders()


def recipe_lock_of_a_lost_session(one, two, path):
    gone = connect_like(one)
    gone.Lock(path, "gone").acquire()
    waiting = later(two.Lock(path, "two").acquire)
    until(one, lambda: len(one.get_children(path)) == 2)
    gone.stop()
    gone.close()
    return waiting(), one.Lock(path).contenders()


def recipe_locking_queue(one, two, path):
    first, second = one.LockingQueue(path), two.LockingQueue(path)
    first.put(b"a", priority=50)
    first.put_all([b"b", b"c"])
    taken = first.get(LIMIT), second.get(LIMIT)
    holds = first.holds_lock(), second.holds_lock()
    consumed = first.consume()
    released = second.release()
    again = first.get(LIMIT)
    return taken, holds, consumed, released, again, first.consume(), len(second), second.get(0.02)


def recipe_partitioner(one, two, path):
    parts = [
        c.SetPartitioner(path, set="abcd", time_boundary=0.1, identifier=name) for c, name in ((one, "one"), (two, "two"))
    ]

    def settled():
        for p in parts:
            if p.release:
                p.release_set()
        return all(p.acquired for p in parts) and sorted(x for p in parts for x in p) == list("abcd")

    until(one, settled)
    shares = [sorted(p) for p in parts]
    for p in parts:
        p.finish()
    return shares


def recipe_party(one, two, path):
    first, second = one.Party(path, "one"), two.ShallowParty(path + "-shallow", "two")
    first.join()
    second.join()
    members = sorted(two.Party(path)), sorted(one.ShallowParty(path + "-shallow"))
    first.leave()
    second.leave()
    return members, len(two.Party(path)), len(one.ShallowParty(path + "-shallow"))


def recipe_queue(one, two, path):
    first, second = one.Queue(path), two.Queue(path)
    for value, priority in ((b"b", 100), (b"c", 200), (b"a", 1)):
        first.put(value, priority)
    return len(second), second.get(), second.get(), first.get(), first.get()


def recipe_read_write_lock(one, two, path):
    reader, also, writer = one.ReadLock(path, "one"), two.ReadLock(path, "two"), two.WriteLock(path, "three")
    held = reader.acquire(), also.acquire(), error_of(writer.acquire, timeout=0.02)
    waiting = later(writer.acquire)
    until(one, lambda: len(one.get_children(path)) == 3)
    reader.release()
    also.release()
    got = waiting()
    late = error_of(reader.acquire, timeout=0.02)
    return held, got, late, writer.release(), reader.acquire(), reader.release()


def recipe_semaphore(one, two, path):
    first, second = one.Semaphore(path, "one", max_leases=2), two.Semaphore(path, "two", max_leases=2)
    third = two.Semaphore(path, "three", max_leases=2)
    held = first.acquire(), second.acquire(), third.acquire(blocking=False), error_of(third.acquire, timeout=0.02)
    holders = sorted(first.lease_holders())
    other = error_of(one.Semaphore(path, "four", max_leases=3).acquire)
    waiting = later(third.acquire)
    until(one, lambda: len(one.get_children(path + "-__lock__")) == 1)
    released = first.release()
    return held, holders, other, released, waiting(), second.release(), third.release(), one.get(path)[0], first.lease_holders()


def recipe_transaction(one, two, path):
    t = one.transaction()
    t.create(path, b"1")
    t.create(path + "/s-", sequence=True)
    t.set_data(path, b"2")
    t.check(path, 1)
    t.create(path + "/x")
    t.delete(path + "/x")
    first, *rest = t.commit()
    t = two.transaction()
    t.set_data(path, b"3")
    t.check(path, 7)
    t.delete(path)
    failed = [type(r).__name__ for r in t.commit()]
    with one.transaction() as t:
        t.create(path + "/y", b"y")
    return first, [getattr(r, "version", r) for r in rest], failed, one.get(path)[0], one.get(path + "/y")[0]


def recipe_tree_cache(one, two, path):
    two.ensure_path(path + "/a")
    seen = queue.Queue()
    cache = TreeCache(one, path)
    cache.listen(lambda event: seen.put((event.event_type, event.event_data and event.event_data.path)))
    cache.start()
    events = [seen.get(timeout=LIMIT) for _ in range(3)]
    two.create(path + "/b", b"b")
    events.append(seen.get(timeout=LIMIT))
    two.set(path + "/b", b"bb")
    events.append(seen.get(timeout=LIMIT))
    data = cache.get_data(path + "/b").data
    two.delete(path + "/b")
    events.append(seen.get(timeout=LIMIT))
    children = sorted(cache.get_children(path))
    cache.close()
    return events, data, children
