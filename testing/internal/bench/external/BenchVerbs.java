import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * Makes requests with the asynchronous calls of ZooKeeper's own client, and prints what it has counted as a line
 * of JSON. Arguments: connect string, folder of the znodes, verb, how many requests are under way, how many
 * znodes there are, milliseconds to count requests for, after half of that to warm up. In a bulk, there is a
 * request under way for each znode.
 */
public final class BenchVerbs {
    private static final byte[] data = new byte[100];
    private static final AtomicInteger all = new AtomicInteger();
    private static volatile boolean over;
    private static volatile int failure;
    private static ZooKeeper client;
    private static String[] paths;
    private static String verb;

    /** Is told when a request has been answered. */
    private interface Answered {
        void with(int code);
    }

    public static void main(String[] args) throws Exception {
        verb = args[2];
        int underWay = Integer.parseInt(args[3]);
        paths = new String[Integer.parseInt(args[4])];
        long duration = Long.parseLong(args[5]);
        for (int i = 0; i < paths.length; i++) {
            paths[i] = args[1] + "/" + i;
        }
        CountDownLatch connected = new CountDownLatch(1);
        client = new ZooKeeper(args[0], 10_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        connected.await();
        if (verb.startsWith("bulk-")) {
            verb = verb.substring("bulk-".length());
            bulks(duration);
        } else {
            requests(underWay, duration);
        }
        client.close();
    }

    /** Makes the next request when one is answered. */
    private static void requests(int underWay, long duration) throws Exception {
        CountDownLatch ended = new CountDownLatch(underWay);
        List<Double> times = new ArrayList<>(); // of the thread that gets all answers
        for (int i = 0; i < underWay; i++) {
            next(i, times, ended);
        }
        Thread.sleep(duration / 2);
        OperatingSystemMXBean used = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        long cpu = used.getProcessCpuTime();
        int before = all.get();
        long began = System.nanoTime();
        Thread.sleep(duration);
        while (all.get() == before && failure == 0) {
            Thread.sleep(10);
        }
        int turns = all.get() - before;
        double seconds = (System.nanoTime() - began) / 1e9;
        cpu = used.getProcessCpuTime() - cpu;
        over = true;
        ended.await();
        double[] counted = times.stream().skip(before).limit(turns).mapToDouble(t -> t).sorted().toArray();
        print(turns, seconds, counted.length == 0 ? 0 : counted[counted.length / 2], cpu);
    }

    private static void next(int i, List<Double> times, CountDownLatch ended) {
        long began = System.nanoTime();
        request(paths[i % paths.length], code -> {
            times.add((System.nanoTime() - began) / 1e3);
            all.incrementAndGet();
            if (code != 0) {
                failure = code;
            }
            if (over || failure != 0) {
                ended.countDown();
            } else {
                next(i + 1, times, ended);
            }
        });
    }

    /** Makes all requests at once, again and again. */
    private static void bulks(long duration) throws Exception {
        bulk(); // warms up
        OperatingSystemMXBean used = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        long cpu = used.getProcessCpuTime();
        int turns = 0;
        long began = System.nanoTime();
        while (turns == 0 || System.nanoTime() - began < duration * 1_000_000) {
            bulk();
            turns += paths.length;
        }
        print(turns, (System.nanoTime() - began) / 1e9, 0, used.getProcessCpuTime() - cpu);
    }

    private static void bulk() throws Exception {
        CountDownLatch answered = new CountDownLatch(paths.length);
        for (String path : paths) {
            request(path, code -> {
                if (code != 0) {
                    failure = code;
                }
                all.incrementAndGet();
                answered.countDown();
            });
        }
        answered.await();
    }

    private static void request(String path, Answered answered) {
        switch (verb) {
            case "get" -> client.getData(path, false, (code, p, context, read, stat) -> answered.with(code), null);
            case "exists" -> client.exists(path, false, (code, p, context, stat) -> answered.with(code), null);
            case "set" -> client.setData(path, data, -1, (code, p, context, stat) -> answered.with(code), null);
            case "create" -> client.create(path + "/", data, ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL_SEQUENTIAL,
                    (code, p, context, name) -> answered.with(code), null);
            default -> throw new IllegalArgumentException("verb " + verb + ", expected get, exists, set or create");
        }
    }

    private static void print(int turns, double seconds, double median, long cpu) throws KeeperException {
        if (failure != 0) {
            throw KeeperException.create(KeeperException.Code.get(failure));
        }
        System.out.printf(Locale.ROOT, "{\"all\":%d,\"turns\":%d,\"seconds\":%f,\"turn_p50_us\":%f,\"client_cpu_us_per_turn\":%f}%n",
                all.get(), turns, seconds, median, cpu / 1e3 / Math.max(turns, 1));
    }
}
