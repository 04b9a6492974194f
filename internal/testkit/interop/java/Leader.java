import java.util.Collection;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.LockInternals;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;

/** Curator's elections as locks: to acquire is to become the leader, to release is to resign. */
final class Leader {
    private Leader() {}

    /** A latch stands for election with each acquisition and leaves with the release. */
    static Lock latch(CuratorFramework client, String path, String id) {
        return new Lock(client) {
            private LeaderLatch latch;

            @Override
            boolean acquire(long timeout) throws Exception {
                latch = new LeaderLatch(client, path, id);
                latch.start();
                if (timeout == FOREVER) {
                    latch.await();
                    return true;
                }
                boolean leads = latch.await(timeout, TimeUnit.MILLISECONDS);
                if (!leads) {
                    latch.close();
                }
                return leads;
            }

            @Override
            void release() throws Exception {
                latch.close();
            }

            @Override
            String node() {
                return latch.getOurPath();
            }

            @Override
            Collection<String> participants() throws Exception {
                return latch.getParticipants().stream().map(Leader::show).toList();
            }
        };
    }

    /** A selector whose function runs from the acquisition to the release. */
    static Lock selector(CuratorFramework client, String path, String id) {
        Semaphore granted = new Semaphore(0);
        Semaphore done = new Semaphore(0);
        LeaderSelector selector = new LeaderSelector(client, path, new LeaderSelectorListenerAdapter() {
            @Override
            public void takeLeadership(CuratorFramework with) throws Exception {
                granted.release();
                done.acquire();
            }
        });
        selector.setId(id);
        return new Lock(client) {
            private boolean started;

            @Override
            boolean acquire(long timeout) throws Exception {
                if (timeout != FOREVER) {
                    throw new UnsupportedOperationException("a selector waits without a limit");
                }
                if (started) {
                    // Refused until the term before has ended in every respect.
                    while (!selector.requeue()) {
                        Thread.sleep(1);
                    }
                } else {
                    started = true;
                    selector.start();
                    selector.requeue();
                }
                granted.acquire();
                return true;
            }

            @Override
            void release() {
                done.release();
            }

            @Override
            String node() throws Exception {
                return LockInternals.getParticipantNodes(client, path, "lock-", new StandardLockInternalsDriver())
                        .iterator()
                        .next();
            }

            @Override
            Collection<String> participants() throws Exception {
                return selector.getParticipants().stream().map(Leader::show).toList();
            }
        };
    }

    private static String show(Participant participant) {
        return participant.getId() + (participant.isLeader() ? " leads" : "");
    }
}
