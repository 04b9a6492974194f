import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * One thread with one client, since Curator's locks belong to threads.
 *
 * <pre>
 * connect ADDRESS/CHROOT TIMEOUT [USER:PASSWORD]
 *                                    session id; the timeout in milliseconds
 * close
 * mutex NAME PATH                    makes a lock that later commands call NAME
 * read-write NAME PATH               makes two: NAME.read and NAME.write
 * semaphore NAME PATH MAX            InterProcessSemaphoreV2
 * semaphore-v1 NAME PATH MAX         InterProcessSemaphore
 * semaphore-mutex NAME PATH
 * latch NAME PATH ID                 LeaderLatch; to acquire is to lead, to release is to leave
 * selector NAME PATH ID              LeaderSelector, in the same way
 * acquire NAME [TIMEOUT]             node and czxid; nothing when the time, in ms, was too short
 * release NAME
 * participants NAME                  paths, in the order of the queue
 * make-revocable NAME                for the next acquisition
 * await-revocation NAME              answers when the listener has been told; not on the thread
 * revoke PATH
 * contend NAME FOLDER TURNS          see {@link Contest}
 * share NAME FOLDER TURNS
 * </pre>
 *
 * What has nothing to do with locks is in {@link Data}, {@link Values}, {@link Services} and {@link Caches}.
 */
final class Actor {
    /** What does not wait for the commands before it. */
    private static final Set<String> AT_ONCE = Set.of("await-revocation");

    private final String name;
    private final ExecutorService thread;
    private final Map<String, Lock> locks = new HashMap<>();
    private CuratorFramework client;

    Actor(String name) {
        this.name = name;
        this.thread = Executors.newSingleThreadExecutor(work -> daemon(work, name));
    }

    private static Thread daemon(Runnable work, String name) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        return thread;
    }

    void submit(String number, String command, List<String> args) {
        Runnable work = () -> {
            try {
                Peer.ok(number, obey(command, args));
            } catch (Throwable failure) {
                Peer.error(number, failure);
            }
        };
        if (AT_ONCE.contains(command)) {
            daemon(work, name + " " + command).start();
        } else {
            thread.execute(work);
        }
    }

    private List<String> obey(String command, List<String> args) throws Exception {
        return switch (command) {
            case "connect" -> connect(args);
            case "close" -> done(client::close);
            case "mutex" -> add(args.get(0), Lock.mutex(client, args.get(1)));
            case "read-write" -> addReadWrite(args.get(0), args.get(1));
            case "semaphore" -> add(args.get(0), Lock.semaphoreV2(client, args.get(1), Integer.parseInt(args.get(2))));
            case "semaphore-v1" -> add(args.get(0), Lock.semaphoreV1(client, args.get(1), Integer.parseInt(args.get(2))));
            case "semaphore-mutex" -> add(args.get(0), Lock.semaphoreMutex(client, args.get(1)));
            case "latch" -> add(args.get(0), Leader.latch(client, args.get(1), args.get(2)));
            case "selector" -> add(args.get(0), Leader.selector(client, args.get(1), args.get(2)));
            case "acquire" -> acquire(lock(args.get(0)), args.size() > 1 ? Long.parseLong(args.get(1)) : Lock.FOREVER);
            case "release" -> done(lock(args.get(0))::release);
            case "participants" -> List.copyOf(lock(args.get(0)).participants());
            case "make-revocable" -> done(lock(args.get(0))::makeRevocable);
            case "await-revocation" -> done(lock(args.get(0))::awaitRevocation);
            case "revoke" -> done(() -> Revoker.attemptRevoke(client, args.get(0)));
            case "contend" -> done(() -> contest(args).contend(lock(args.get(0))));
            case "share" -> done(() -> contest(args).share(lock(args.get(0))));
            default -> Data.obey(client, command, args);
        };
    }

    private interface Action {
        void run() throws Exception;
    }

    private static List<String> done(Action action) throws Exception {
        action.run();
        return List.of();
    }

    private List<String> connect(List<String> args) throws Exception {
        int timeout = Integer.parseInt(args.get(1));
        CuratorFrameworkFactory.Builder builder = CuratorFrameworkFactory.builder()
                .connectString(args.get(0))
                .sessionTimeoutMs(timeout)
                .connectionTimeoutMs(timeout)
                .retryPolicy(new ExponentialBackoffRetry(100, 5));
        if (args.size() > 2) {
            builder.authorization("digest", args.get(2).getBytes(StandardCharsets.UTF_8));
        }
        client = builder.build();
        CountDownLatch connected = new CountDownLatch(1);
        client.getConnectionStateListenable().addListener((on, state) -> connected.countDown());
        client.start();
        // What is started before this is told would take it for a connection that came back.
        connected.await();
        return List.of(Long.toString(client.getZookeeperClient().getZooKeeper().getSessionId()));
    }

    private List<String> add(String lockName, Lock lock) {
        synchronized (locks) {
            locks.put(lockName, lock);
        }
        return List.of();
    }

    private List<String> addReadWrite(String lockName, String path) {
        InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, path);
        add(lockName + ".read", Lock.of(client, both.readLock()));
        return add(lockName + ".write", Lock.of(client, both.writeLock()));
    }

    private Lock lock(String lockName) {
        synchronized (locks) {
            Lock lock = locks.get(lockName);
            if (lock == null) {
                throw new IllegalArgumentException("no lock " + lockName + ", expected one of " + locks.keySet());
            }
            return lock;
        }
    }

    private List<String> acquire(Lock lock, long timeout) throws Exception {
        return lock.acquire(timeout) ? List.of(lock.node(), Long.toString(lock.czxid())) : List.of();
    }

    private Contest contest(List<String> args) {
        return new Contest(name, Path.of(args.get(1)), Integer.parseInt(args.get(2)));
    }
}
