import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Uses a counter, a double barrier or a queue of Apache Curator as it is told, and prints what it has counted
 * as a line of JSON. Arguments: connect string, path, kind of the scenario, clients, threads of each, items,
 * milliseconds.
 */
public final class BenchValues {
    private static final OperatingSystemMXBean used = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
    private static volatile long begun; // 0 while warming up
    private static volatile boolean over;
    private static final AtomicInteger counted = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        String path = args[1];
        String kind = args[2];
        int threads = Integer.parseInt(args[4]);
        int items = Integer.parseInt(args[5]);
        long duration = Long.parseLong(args[6]);
        List<CuratorFramework> clients = new ArrayList<>();
        for (int c = 0; c < Integer.parseInt(args[3]); c++) {
            CuratorFramework client =
                    CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new ExponentialBackoffRetry(100, 5));
            client.start();
            client.blockUntilConnected();
            clients.add(client);
        }
        switch (kind) {
            case "counter" -> count(clients, path, threads, duration);
            case "double-barrier" -> meet(clients, path, threads, duration);
            default -> queueUp(clients, path, kind, items);
        }
        for (CuratorFramework client : clients) {
            client.close();
        }
        System.exit(0); // whatever threads a recipe has left
    }

    /** Has all threads increment a counter. */
    private static void count(List<CuratorFramework> clients, String path, int threads, long duration) throws Exception {
        ExecutorService pool = Executors.newCachedThreadPool();
        List<Future<List<Double>>> all = new ArrayList<>();
        for (CuratorFramework client : clients) {
            // The pauses after a collision are those of the other side: 1 ms, and 50 ms at most.
            DistributedAtomicLong counter = new DistributedAtomicLong(client, path, new ExponentialBackoffRetry(1, 29, 50));
            for (int t = 0; t < threads; t++) {
                all.add(pool.submit(() -> {
                    List<Double> turns = new ArrayList<>();
                    while (!over) {
                        long began = System.nanoTime();
                        while (!counter.increment().succeeded()) {
                            continue;
                        }
                        if (begun != 0 && began > begun) {
                            turns.add((System.nanoTime() - began) / 1e3);
                            counted.incrementAndGet();
                        }
                    }
                    return turns;
                }));
            }
        }
        Thread.sleep(duration / 2);
        long cpu = used.getProcessCpuTime();
        begun = System.nanoTime();
        Thread.sleep(duration);
        while (counted.get() == 0) { // on a machine that is very busy
            Thread.sleep(10);
        }
        over = true;
        List<Double> turns = new ArrayList<>();
        for (Future<List<Double>> one : all) {
            turns.addAll(one.get());
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        long total = new DistributedAtomicLong(clients.get(0), path, new ExponentialBackoffRetry(1, 29)).get().postValue();
        print(total, turns.size(), seconds, median(turns), used.getProcessCpuTime() - cpu, 0, 0);
    }

    /** Has all members enter a barrier and leave it, round after round. */
    private static void meet(List<CuratorFramework> clients, String path, int threads, long duration) throws Exception {
        ExecutorService pool = Executors.newCachedThreadPool();
        int n = clients.size() * threads;
        List<DistributedDoubleBarrier> members = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            members.add(new DistributedDoubleBarrier(clients.get(i % clients.size()), path, n));
        }
        List<Double> rounds = new ArrayList<>();
        long all = 0;
        long cpu = 0;
        while (rounds.isEmpty() || System.nanoTime() - begun < duration * 1_000_000) {
            long began = System.nanoTime();
            for (boolean enter : new boolean[] {true, false}) {
                List<Future<?>> waiting = new ArrayList<>();
                for (DistributedDoubleBarrier member : members) {
                    waiting.add(pool.submit(() -> {
                        if (enter) {
                            member.enter();
                        } else {
                            member.leave();
                        }
                        return null;
                    }));
                }
                for (Future<?> one : waiting) {
                    one.get();
                }
            }
            all += n;
            if (begun == 0) {
                begun = System.nanoTime();
                cpu = used.getProcessCpuTime();
                continue;
            }
            rounds.add((System.nanoTime() - began) / 1e3);
        }
        double seconds = (System.nanoTime() - begun) / 1e9;
        print(all, rounds.size(), seconds, median(rounds), used.getProcessCpuTime() - cpu, 0, 0);
    }

    /** Puts items into a queue, and then has another client consume them; once before to warm up. */
    private static void queueUp(List<CuratorFramework> clients, String path, String kind, int items) throws Exception {
        put(clients.get(0), path + "/warm", kind, items);
        consume(clients.get(1), path + "/warm", kind, items);
        long cpu = used.getProcessCpuTime();
        long began = System.nanoTime();
        put(clients.get(0), path + "/measured", kind, items);
        long there = System.nanoTime();
        consume(clients.get(1), path + "/measured", kind, items);
        long end = System.nanoTime();
        print(2L * items, items, (end - began) / 1e9, 0, used.getProcessCpuTime() - cpu,
                items / ((there - began) / 1e9), items / ((end - there) / 1e9));
    }

    private static final QueueSerializer<String> TEXT = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return item.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public String deserialize(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    };

    private static QueueBase<String> queue(QueueBuilder<String> builder, String path, String kind) {
        return switch (kind) {
            case "items-fifo" -> builder.buildQueue();
            case "items-locked" -> builder.lockPath(path + "-locks").buildQueue();
            case "items-priority" -> builder.buildPriorityQueue(0);
            case "items-delay" -> builder.buildDelayQueue();
            case "items-id" -> builder.buildIdQueue();
            default -> throw new IllegalArgumentException(kind);
        };
    }

    private static void put(CuratorFramework client, String path, String kind, int items) throws Exception {
        if (kind.equals("items-simple")) {
            SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
            for (int i = 0; i < items; i++) {
                queue.offer(TEXT.serialize("item-" + i));
            }
            return;
        }
        try (QueueBase<String> queue = queue(QueueBuilder.builder(client, null, TEXT, path), path, kind)) {
            queue.start();
            for (int i = 0; i < items; i++) {
                String item = "item-" + i;
                if (queue instanceof DistributedQueue<String> fifo) {
                    fifo.put(item);
                } else if (queue instanceof DistributedPriorityQueue<String> priority) {
                    priority.put(item, 5);
                } else if (queue instanceof DistributedDelayQueue<String> delay) {
                    delay.put(item, System.currentTimeMillis());
                } else if (queue instanceof DistributedIdQueue<String> id) {
                    id.put(item, item);
                }
            }
            if (!queue.flushPuts(1, TimeUnit.MINUTES)) {
                throw new Exception("the puts are not flushed");
            }
        }
    }

    private static void consume(CuratorFramework client, String path, String kind, int items) throws Exception {
        if (kind.equals("items-simple")) {
            SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
            for (int i = 0; i < items; i++) {
                queue.take();
            }
            return;
        }
        CountDownLatch left = new CountDownLatch(items);
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) {
                left.countDown();
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
        try (QueueBase<String> queue = queue(QueueBuilder.builder(client, consumer, TEXT, path), path, kind)) {
            queue.start();
            if (!left.await(2, TimeUnit.MINUTES)) {
                throw new Exception(left.getCount() + " items were not consumed");
            }
        }
    }

    private static double median(List<Double> values) {
        double[] sorted = values.stream().mapToDouble(v -> v).sorted().toArray();
        return sorted.length == 0 ? 0 : sorted[sorted.length / 2];
    }

    private static void print(long all, int turns, double seconds, double median, long cpu, double put, double consumed) {
        System.out.printf(Locale.ROOT, "{\"all\":%d,\"turns\":%d,\"seconds\":%f,\"turn_p50_us\":%f,\"client_cpu_us_per_turn\":%f,"
                        + "\"put_per_s\":%f,\"consumed_per_s\":%f}%n",
                all, turns, seconds, median, cpu / 1e3 / Math.max(turns, 1), put, consumed);
    }
}
