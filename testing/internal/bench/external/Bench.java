import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.lang.management.ManagementFactory;
import java.net.Socket;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.zookeeper.ZooKeeper;

/**
 * Takes turns at a lock of Apache Curator as it is told, and prints what it has counted as a line of
 * JSON. Arguments: connect string, path, clients, threads of each, leases, readers of ten,
 * "queue" or "turns", milliseconds to count turns for, after half of that to warm up.
 */
public final class Bench {
    private static final AtomicInteger readers = new AtomicInteger();
    private static final AtomicInteger others = new AtomicInteger();
    private static final AtomicInteger all = new AtomicInteger();
    private static final AtomicInteger overlaps = new AtomicInteger();
    private static volatile long begun; // 0 while warming up
    private static volatile boolean over;
    private static int leases;
    private static String mode;
    private static String servers;
    private static volatile long released; // when the lock was given back for the last time
    private static final List<Double> hands = java.util.Collections.synchronizedList(new ArrayList<>());

    private interface Locker {
        AutoCloseable lock(boolean read) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        String path = args[1];
        int clients = Integer.parseInt(args[2]);
        int threads = Integer.parseInt(args[3]);
        leases = Integer.parseInt(args[4]);
        int reads = Integer.parseInt(args[5]);
        servers = args[0];
        mode = args[6];
        boolean queue = mode.equals("queue");
        long duration = Long.parseLong(args[7]);
        List<CuratorFramework> connected = new ArrayList<>();
        List<List<double[]>> turns = new ArrayList<>();
        List<Thread> started = new ArrayList<>();
        AutoCloseable holder = null;
        List<Throwable> failures = new ArrayList<>();
        for (int c = 0; c < clients; c++) {
            CuratorFramework client = CuratorFrameworkFactory.newClient(
                    args[0], 10_000, 10_000, new ExponentialBackoffRetry(100, 5));
            client.start();
            client.blockUntilConnected();
            connected.add(client);
            if (queue && c == 0) {
                holder = locker(client, path, reads).lock(false);
            }
            for (int t = 0; t < threads; t++) {
                // Each has an instance of its own: the release of one removes the watches of all that share it.
                Locker locker = locker(client, path, reads);
                int first = c * threads + t;
                List<double[]> mine = new ArrayList<>();
                turns.add(mine);
                Thread thread = new Thread(() -> {
                    try {
                        for (int i = first; !over; i++) {
                            turn(locker, i % 10 < reads, mine);
                            if (queue) {
                                return;
                            }
                        }
                    } catch (Exception e) {
                        synchronized (failures) {
                            failures.add(e);
                        }
                    }
                });
                started.add(thread);
                thread.start();
            }
        }
        OperatingSystemMXBean used = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        long cpu;
        if (queue) {
            while (connected.get(0).getChildren().forPath(path).size() <= started.size()) {
                Thread.sleep(1);
            }
            cpu = used.getProcessCpuTime();
            begun = System.nanoTime();
            holder.close();
        } else {
            Thread.sleep(duration / 2);
            cpu = used.getProcessCpuTime();
            begun = System.nanoTime();
            Thread.sleep(duration);
            while (hands.isEmpty() && failures.isEmpty()) {
                Thread.sleep(10);
            }
            over = true;
        }
        for (Thread thread : started) {
            thread.join();
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        cpu = used.getProcessCpuTime() - cpu;
        if (!failures.isEmpty()) {
            throw new Exception(failures.size() + " threads failed", failures.get(0));
        }
        double[] waits = turns.stream().flatMap(List::stream).mapToDouble(t -> t[0]).sorted().toArray();
        double[] whole = turns.stream().flatMap(List::stream).mapToDouble(t -> t[1]).sorted().toArray();
        double[] hand = hands.stream().mapToDouble(h -> h).sorted().toArray();
        System.out.printf(Locale.ROOT, "{\"all\":%d,\"turns\":%d,\"seconds\":%f,\"wait_p50_us\":%f,\"wait_p99_us\":%f,"
                        + "\"turn_p50_us\":%f,\"handover_p50_us\":%f,\"handover_p99_us\":%f,\"overlaps\":%d,\"client_cpu_us_per_turn\":%f}%n",
                all.get(), waits.length, seconds, percentile(waits, 50), percentile(waits, 99), percentile(whole, 50), percentile(hand, 50), percentile(hand, 99), overlaps.get(),
                cpu / 1e3 / Math.max(waits.length, 1));
        for (CuratorFramework client : connected) {
            client.close();
        }
    }

    /** Closes the session of a client by another connection, as its death does. */
    private static void kill(CuratorFramework client, LeaderLatch latch) throws Exception {
        while (!over && latch.getParticipants().size() < 4) { // those that died before have to come back
            Thread.sleep(5);
        }
        ZooKeeper own = client.getZookeeperClient().getZooKeeper();
        String[] server = servers.split(",")[0].split(":");
        released = System.nanoTime();
        try (Socket socket = new Socket(server[0], Integer.parseInt(server[1]))) {
            DataOutputStream out = new DataOutputStream(new BufferedOutputStream(socket.getOutputStream()));
            DataInputStream in = new DataInputStream(socket.getInputStream());
            out.writeInt(45); // a connect request with the session's id and password
            out.writeInt(0);
            out.writeLong(0);
            out.writeInt(10_000);
            out.writeLong(own.getSessionId());
            out.writeInt(16);
            out.write(own.getSessionPasswd());
            out.writeByte(0);
            out.flush();
            in.readFully(new byte[in.readInt()]);
            out.writeInt(8); // and a request to close it
            out.writeInt(1);
            out.writeInt(-11);
            out.flush();
            while (in.read() >= 0) {
                continue;
            }
        }
        while (latch.hasLeadership()) {
            Thread.sleep(1);
        }
        latch.close();
        client.blockUntilConnected();
    }

    private static Locker locker(CuratorFramework client, String path, int reads) {
        if (mode.equals("resign") || mode.equals("kill")) {
            return read -> {
                LeaderLatch latch = new LeaderLatch(client, path);
                latch.start();
                latch.await();
                return mode.equals("kill") ? () -> kill(client, latch) : latch::close;
            };
        }
        if (leases > 0) {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, leases);
            return read -> {
                Lease lease = semaphore.acquire();
                return () -> semaphore.returnLease(lease);
            };
        }
        if (reads > 0) {
            InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
            return read -> {
                InterProcessMutex side = read ? lock.readLock() : lock.writeLock();
                side.acquire();
                return side::release;
            };
        }
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        return read -> {
            mutex.acquire();
            return mutex::release;
        };
    }

    private static void turn(Locker locker, boolean read, List<double[]> turns) throws Exception {
        long began = System.nanoTime();
        AutoCloseable held = locker.lock(read);
        long entered = System.nanoTime();
        if (read) {
            readers.incrementAndGet();
            if (others.get() > 0) {
                overlaps.incrementAndGet();
            }
            readers.decrementAndGet();
        } else {
            if (others.incrementAndGet() > Math.max(leases, 1) || readers.get() > 0) {
                overlaps.incrementAndGet();
            }
            others.decrementAndGet();
        }
        long before = released;
        released = System.nanoTime();
        held.close();
        all.incrementAndGet();
        if (begun != 0 && before > begun && !over) {
            hands.add((entered - before) / 1e3);
        }
        if (begun != 0 && entered > begun) {
            turns.add(new double[] {(entered - began) / 1e3, (System.nanoTime() - began) / 1e3});
        }
    }

    private static double percentile(double[] sorted, int p) {
        return sorted.length == 0 ? 0 : sorted[Math.min(sorted.length * p / 100, sorted.length - 1)];
    }
}
