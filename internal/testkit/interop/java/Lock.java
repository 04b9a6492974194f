import java.lang.reflect.Method;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Comparator;
import java.util.Deque;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphore;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.utils.ZKPaths;

/** What the commands need of any of Curator's locks. */
abstract class Lock {
    /** As a timeout in milliseconds: none. */
    static final long FOREVER = -1;

    private final CuratorFramework client;
    private final Semaphore revocations = new Semaphore(0);

    Lock(CuratorFramework client) {
        this.client = client;
    }

    /** Returns whether the lock was acquired in time. */
    abstract boolean acquire(long timeout) throws Exception;

    abstract void release() throws Exception;

    /** Returns the path of the node of the newest hold of this thread. */
    abstract String node() throws Exception;

    Collection<String> participants() throws Exception {
        throw new UnsupportedOperationException("Curator has no participants of this lock");
    }

    void makeRevocable() {
        throw new UnsupportedOperationException("Curator cannot revoke this lock");
    }

    final void revocationRequested() {
        revocations.release();
    }

    final void awaitRevocation() throws InterruptedException {
        revocations.acquire();
    }

    final long czxid() throws Exception {
        return client.checkExists().forPath(node()).getCzxid();
    }

    static Lock mutex(CuratorFramework client, String path) {
        return of(client, new InterProcessMutex(client, path));
    }

    /** Wraps a mutex, which either half of a read-write lock is, too. */
    static Lock of(CuratorFramework client, InterProcessMutex mutex) {
        return new Lock(client) {
            @Override
            boolean acquire(long timeout) throws Exception {
                if (timeout == FOREVER) {
                    mutex.acquire();
                    return true;
                }
                return mutex.acquire(timeout, TimeUnit.MILLISECONDS);
            }

            @Override
            void release() throws Exception {
                mutex.release();
            }

            @Override
            String node() throws Exception {
                Method path = InterProcessMutex.class.getDeclaredMethod("getLockPath"); // protected
                path.setAccessible(true);
                return (String) path.invoke(mutex);
            }

            @Override
            Collection<String> participants() throws Exception {
                return mutex.getParticipantNodes();
            }

            @Override
            void makeRevocable() {
                mutex.makeRevocable(forLock -> revocationRequested());
            }
        };
    }

    /** Wraps a semaphore mutex, which does not tell its node: that of the holder is the first. */
    static Lock semaphoreMutex(CuratorFramework client, String path) {
        InterProcessSemaphoreMutex mutex = new InterProcessSemaphoreMutex(client, path);
        return new Lock(client) {
            @Override
            boolean acquire(long timeout) throws Exception {
                if (timeout == FOREVER) {
                    mutex.acquire();
                    return true;
                }
                return mutex.acquire(timeout, TimeUnit.MILLISECONDS);
            }

            @Override
            void release() throws Exception {
                mutex.release();
            }

            @Override
            String node() throws Exception {
                String leases = ZKPaths.makePath(path, "leases");
                return client.getChildren().forPath(leases).stream()
                        .min(Comparator.comparing(ZKPaths::extractSequentialSuffix))
                        .map(name -> ZKPaths.makePath(leases, name))
                        .orElseThrow();
            }
        };
    }

    static Lock semaphoreV2(CuratorFramework client, String path, int max) {
        InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, max);
        return new Permits(client, ZKPaths.makePath(path, "leases")) {
            @Override
            Lease take(long timeout) throws Exception {
                return timeout == FOREVER ? semaphore.acquire() : semaphore.acquire(timeout, TimeUnit.MILLISECONDS);
            }

            @Override
            Collection<String> participants() throws Exception {
                return semaphore.getParticipantNodes();
            }
        };
    }

    @SuppressWarnings("deprecation") // its layout is one to interoperate with
    static Lock semaphoreV1(CuratorFramework client, String path, int max) {
        InterProcessSemaphore semaphore = new InterProcessSemaphore(client, path, max);
        return new Permits(client, path) {
            @Override
            Lease take(long timeout) throws Exception {
                return timeout == FOREVER ? semaphore.acquire() : semaphore.acquire(timeout, TimeUnit.MILLISECONDS);
            }
        };
    }

    /** Permits of a semaphore; the newest is released first. */
    private abstract static class Permits extends Lock {
        private final String folder;
        private final Deque<Lease> leases = new ArrayDeque<>();

        Permits(CuratorFramework client, String folder) {
            super(client);
            this.folder = folder;
        }

        /** Returns a permit, or null when there was none in time. */
        abstract Lease take(long timeout) throws Exception;

        @Override
        boolean acquire(long timeout) throws Exception {
            Lease lease = take(timeout);
            if (lease != null) {
                leases.push(lease);
            }
            return lease != null;
        }

        @Override
        void release() throws Exception {
            leases.pop().close();
        }

        @Override
        String node() {
            return ZKPaths.makePath(folder, leases.element().getNodeName());
        }
    }
}
