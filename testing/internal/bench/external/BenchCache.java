import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Follows a tree with Curator's CuratorCache and answers each command on its input with a line of JSON.
 * Arguments: connect string, path, path of a tree to warm up with.
 */
public final class BenchCache {
    private static final Object lock = new Object();
    private static double[] lags = new double[1 << 18];
    private static int told;
    private static boolean ready;
    private static volatile boolean probing;
    private static double[] others = new double[1 << 18];
    private static int probes;

    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                args[0], 40_000, 10_000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        for (int i = 0; i < 3; i++) { // the compiler needs it
            try (CuratorCache warm = CuratorCache.build(client, args[2])) {
                CountDownLatch full = new CountDownLatch(1);
                warm.listenable().addListener(CuratorCacheListener.builder().forInitialized(full::countDown).build());
                warm.start();
                full.await();
            }
        }
        CuratorCache cache = CuratorCache.build(client, args[1]);
        cache.listenable().addListener(CuratorCacheListener.builder()
                .forInitialized(() -> {
                    synchronized (lock) {
                        ready = true;
                        lock.notifyAll();
                    }
                })
                .forChanges(BenchCache::changed)
                .build());
        Thread prober = null;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            switch (words[0]) {
                case "fill":
                    fill(cache);
                    break;
                case "watch":
                    synchronized (lock) {
                        told = 0;
                    }
                    answer(new double[0], 0);
                    break;
                case "noted":
                    noted(Integer.parseInt(words[1]));
                    break;
                case "probe":
                    probing = true;
                    prober = new Thread(() -> probe(client, args[1]));
                    prober.start();
                    answer(new double[0], 0);
                    break;
                case "probed":
                    probing = false;
                    prober.join();
                    answer(others, probes, probes + 1);
                    break;
                default:
                    throw new IllegalArgumentException(line);
            }
        }
        cache.close();
        client.close();
    }

    private static void fill(CuratorCache cache) throws Exception {
        long before = used();
        long began = System.nanoTime();
        cache.start();
        synchronized (lock) {
            while (!ready) {
                lock.wait();
            }
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.printf(Locale.ROOT, "{\"seconds\":%f,\"nodes\":%d,\"memory\":%d}%n", seconds, cache.size(), used() - before);
    }

    /** The bytes of the heap that can be reached. */
    private static long used() throws Exception {
        Runtime runtime = Runtime.getRuntime();
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(50);
        }
        return runtime.totalMemory() - runtime.freeMemory();
    }

    private static void changed(ChildData before, ChildData after) {
        java.time.Instant now = java.time.Instant.now();
        String text = new String(after.getData());
        double written = Long.parseLong(text.substring(0, text.indexOf(' '))) / 1e3;
        synchronized (lock) {
            if (!ready) {
                return;
            }
            if (told == lags.length) {
                lags = Arrays.copyOf(lags, 2 * told);
            }
            lags[told++] = now.getEpochSecond() * 1e6 + now.getNano() / 1e3 - written;
            lock.notifyAll();
        }
    }

    private static void noted(int atLeast) throws Exception {
        long end = System.nanoTime() + 60_000_000_000L;
        synchronized (lock) {
            while (told < atLeast && System.nanoTime() < end) {
                lock.wait(100);
            }
            answer(lags, told);
        }
    }

    private static void probe(CuratorFramework client, String path) {
        try {
            client.getData().forPath(path); // waits for the connection
            while (probing && probes < others.length) {
                long began = System.nanoTime();
                client.getData().forPath(path);
                others[probes++] = (System.nanoTime() - began) / 1e3;
                Thread.sleep(2);
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private static void answer(double[] times, int n) {
        answer(times, n, n);
    }

    private static void answer(double[] times, int n, int events) {
        double[] sorted = Arrays.copyOf(times, n);
        Arrays.sort(sorted);
        System.out.printf(Locale.ROOT, "{\"events\":%d,\"p50_us\":%f,\"p99_us\":%f}%n", events, percentile(sorted, 50), percentile(sorted, 99));
    }

    private static double percentile(double[] sorted, int p) {
        return sorted.length == 0 ? 0 : sorted[Math.min(sorted.length * p / 100, sorted.length - 1)];
    }
}
