import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
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
import org.apache.curator.framework.recipes.queue.QueueSharder;
import org.apache.curator.framework.recipes.queue.QueueSharderPolicies;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedCountListener;
import org.apache.curator.framework.recipes.shared.SharedCountReader;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/**
 * Values, barriers and queues.
 *
 * <pre>
 * increment PATH TIMES               each of the values after an increment
 * set-count PATH NUMBER
 * await-count PATH NUMBER            all numbers that were heard, up to this one
 * rounds PATH MEMBERS TIMES          enters and leaves a double barrier so often
 * enter PATH MEMBERS                 enters a double barrier
 * leave PATH                         leaves it
 * put KIND PATH ITEM...              puts items into a queue
 * consume KIND PATH LOCKS NUMBER     so many items of a queue; LOCKS is a path or "none"
 *     KIND: fifo, simple, priority (that of the item is its length), delay (none), id (the item)
 * shard-put PATH LEADER FULL MOST ITEM...   puts items into the queues of a sharder, the first ones until it has
 *                                    added queues up to MOST, and answers with the paths of all
 * shard-consume PATH LEADER NUMBER   so many items of all queues of a sharder
 * </pre>
 */
final class Values {
    /** By client and path. */
    private static final Map<List<Object>, DistributedDoubleBarrier> ENTERED = new ConcurrentHashMap<>();

    private Values() {}

    static List<String> obey(CuratorFramework client, String command, List<String> args) throws Exception {
        String path = args.get(0);
        switch (command) {
            case "increment":
                return increment(client, path, Integer.parseInt(args.get(1)));
            case "set-count":
                try (SharedCount count = new SharedCount(client, path, 0)) {
                    count.start();
                    count.setCount(Integer.parseInt(args.get(1)));
                }
                return List.of();
            case "await-count":
                return awaitCount(client, path, Integer.parseInt(args.get(1)));
            case "rounds":
                DistributedDoubleBarrier barrier =
                        new DistributedDoubleBarrier(client, path, Integer.parseInt(args.get(1)));
                for (int i = 0; i < Integer.parseInt(args.get(2)); i++) {
                    barrier.enter();
                    barrier.leave();
                }
                return List.of();
            case "enter":
                DistributedDoubleBarrier entered =
                        new DistributedDoubleBarrier(client, path, Integer.parseInt(args.get(1)));
                entered.enter();
                ENTERED.put(List.of(client, path), entered);
                return List.of();
            case "leave":
                ENTERED.remove(List.of(client, path)).leave();
                return List.of();
            case "put":
                put(client, path, args.get(1), args.subList(2, args.size()));
                return List.of();
            case "consume":
                return consume(client, path, args.get(1), args.get(2), Integer.parseInt(args.get(3)));
            case "shard-put":
                return putSharded(client, path, args.get(1), Integer.parseInt(args.get(2)), Integer.parseInt(args.get(3)),
                        args.subList(4, args.size()));
            case "shard-consume":
                return consumeSharded(client, path, args.get(1), Integer.parseInt(args.get(2)));
            default:
                return Services.obey(client, command, args);
        }
    }

    private static List<String> increment(CuratorFramework client, String path, int times) throws Exception {
        DistributedAtomicLong counter = new DistributedAtomicLong(client, path, new RetryNTimes(1000, 1));
        List<String> values = new ArrayList<>();
        while (values.size() < times) {
            AtomicValue<Long> value = counter.increment();
            if (value.succeeded()) {
                values.add(Long.toString(value.postValue()));
            }
        }
        return values;
    }

    private static List<String> awaitCount(CuratorFramework client, String path, int last) throws Exception {
        BlockingQueue<Integer> heard = new LinkedBlockingQueue<>();
        List<String> all = new ArrayList<>();
        try (SharedCount count = new SharedCount(client, path, 0)) {
            count.addListener(new SharedCountListener() {
                @Override
                public void countHasChanged(SharedCountReader reader, int number) {
                    heard.add(number);
                }

                @Override
                public void stateChanged(CuratorFramework on, ConnectionState state) {}
            });
            count.start();
            if (count.getCount() == last) {
                heard.add(last); // nobody may tell it
            }
            int next;
            do {
                next = heard.take();
                all.add(Integer.toString(next));
            } while (next != last);
        }
        return all;
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

    /** Puts in the foreground: one that fails in the background is not reported, and flushPuts waits for it in vain. */
    private static QueueBuilder<String> builder(CuratorFramework client, QueueConsumer<String> consumer, String path) {
        return QueueBuilder.builder(client, consumer, TEXT, path).putInBackground(false);
    }

    private static QueueBase<String> queue(QueueBuilder<String> builder, String kind) {
        return switch (kind) {
            case "fifo" -> builder.buildQueue();
            case "priority" -> builder.buildPriorityQueue(0);
            case "delay" -> builder.buildDelayQueue();
            case "id" -> builder.buildIdQueue();
            default -> throw new IllegalArgumentException("no queue " + kind);
        };
    }

    private static void put(CuratorFramework client, String kind, String path, List<String> items) throws Exception {
        if (kind.equals("simple")) {
            SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
            for (String item : items) {
                queue.offer(TEXT.serialize(item));
            }
            return;
        }
        try (QueueBase<String> queue = queue(builder(client, null, path), kind)) {
            queue.start();
            for (String item : items) {
                if (queue instanceof DistributedQueue<String> fifo) {
                    fifo.put(item);
                } else if (queue instanceof DistributedPriorityQueue<String> priority) {
                    priority.put(item, item.length());
                } else if (queue instanceof DistributedDelayQueue<String> delay) {
                    delay.put(item, System.currentTimeMillis());
                } else if (queue instanceof DistributedIdQueue<String> id) {
                    id.put(item, item);
                }
            }
        }
    }

    private static List<String> consume(CuratorFramework client, String kind, String path, String locks, int number)
            throws Exception {
        List<String> items = new ArrayList<>();
        if (kind.equals("simple")) {
            SimpleDistributedQueue queue = new SimpleDistributedQueue(client, path);
            while (items.size() < number) {
                items.add(TEXT.deserialize(queue.take()));
            }
            return items;
        }
        BlockingQueue<String> consumed = new LinkedBlockingQueue<>();
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) {
                consumed.add(item);
            }

            @Override
            public void stateChanged(CuratorFramework on, ConnectionState state) {}
        };
        QueueBuilder<String> builder = builder(client, consumer, path);
        if (!locks.equals("none")) {
            builder.lockPath(locks);
        }
        try (QueueBase<String> queue = queue(builder, kind)) {
            queue.start();
            while (items.size() < number) {
                items.add(consumed.take());
            }
            // The last one is deleted after it was consumed.
            while (!client.getChildren().forPath(path).isEmpty()) {
                Thread.sleep(1);
            }
        }
        return items;
    }

    private static QueueSharder<String, DistributedQueue<String>> sharder(
            CuratorFramework client, QueueConsumer<String> consumer, String path, String leader, int full, int most) {
        QueueSharderPolicies policies = QueueSharderPolicies.builder()
                .newQueueThreshold(full).maxQueues(most).thresholdCheckMs(10).build();
        return new QueueSharder<>(client, (on, at) -> builder(on, consumer, at).buildQueue(), path, leader, policies);
    }

    private static List<String> putSharded(
            CuratorFramework client, String path, String leader, int full, int most, List<String> items) throws Exception {
        try (QueueSharder<String, DistributedQueue<String>> sharder = sharder(client, null, path, leader, full, most)) {
            sharder.start();
            for (int i = 0; i < items.size(); i++) {
                while (i >= full * sharder.getShardQty() && sharder.getShardQty() < most) {
                    Thread.sleep(1);
                }
                // A sharder lists, and hands out, a queue that it has not started yet: its put fails with NoNode.
                for (String queue : sharder.getQueuePaths()) {
                    while (client.checkExists().forPath(queue) == null) {
                        Thread.sleep(1);
                    }
                }
                sharder.getQueue().put(items.get(i));
            }
            return new ArrayList<>(sharder.getQueuePaths());
        }
    }

    private static List<String> consumeSharded(CuratorFramework client, String path, String leader, int number)
            throws Exception {
        BlockingQueue<String> consumed = new LinkedBlockingQueue<>();
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String item) {
                consumed.add(item);
            }

            @Override
            public void stateChanged(CuratorFramework on, ConnectionState state) {}
        };
        List<String> items = new ArrayList<>();
        try (QueueSharder<String, DistributedQueue<String>> sharder = sharder(client, consumer, path, leader, 1000, 10)) {
            sharder.start();
            while (items.size() < number) {
                items.add(consumed.take());
            }
        }
        return items;
    }
}
