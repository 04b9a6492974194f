import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCacheEvent;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * Keeps the children of a path with Curator's PathChildrenCache and answers each command on its input with a line of JSON.
 * Arguments: connect string, path, path of children to warm up with.
 */
public final class BenchChildren {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                args[0], 40_000, 10_000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        for (int i = 0; i < 3; i++) { // the compiler needs it
            fill(client, args[2]).close();
        }
        PathChildrenCache cache = null;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            if (line.equals("fill")) {
                long before = used();
                long began = System.nanoTime();
                cache = fill(client, args[1]);
                double seconds = (System.nanoTime() - began) / 1e9;
                System.out.printf(Locale.ROOT, "{\"seconds\":%f,\"nodes\":%d,\"memory\":%d}%n",
                        seconds, cache.getCurrentData().size(), used() - before);
            } else {
                System.out.println("{}");
            }
        }
        cache.close();
        client.close();
    }

    private static PathChildrenCache fill(CuratorFramework client, String path) throws Exception {
        PathChildrenCache cache = new PathChildrenCache(client, path, true);
        CountDownLatch full = new CountDownLatch(1);
        cache.getListenable().addListener((on, event) -> {
            if (event.getType() == PathChildrenCacheEvent.Type.INITIALIZED) {
                full.countDown();
            }
        });
        cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
        full.await();
        return cache;
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
}
