import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.details.ServiceCacheListener;

/**
 * Registers instances of a service with Curator's x-discovery, watches them, changes them one after
 * the other, and prints what it has counted as a line of JSON. Arguments: connect string, path,
 * clients, instances of each, watchers, milliseconds of changes.
 */
public final class BenchDiscovery {
    private static final String SERVICE = "service";
    private static final int REGISTRARS = 16;
    private static final int LOOK_UPS = 100_000;

    private static String servers;
    private static String path;
    private static final List<ServiceDiscovery<Void>> processes = new ArrayList<>();
    private static final List<Watch> watchers = new ArrayList<>();
    private static final List<Double> seen = new ArrayList<>();
    private static int changes;

    /** A cache of the service on a client of its own. */
    private static final class Watch implements ServiceCacheListener {
        private final ServiceCache<Void> cache;
        private int want = -1;
        private long at;

        Watch() throws Exception {
            cache = connect().serviceCacheBuilder().name(SERVICE).build();
            cache.addListener(this);
            cache.start();
        }

        @Override
        public void cacheChanged() {
            int there = cache.getInstances().size();
            long now = System.nanoTime();
            synchronized (this) {
                if (there == want) {
                    want = -1;
                    at = now;
                    notifyAll();
                }
            }
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {
            // it counts changes only
        }

        synchronized void expect(int n) {
            want = n;
        }

        synchronized long await() throws InterruptedException {
            while (want >= 0) {
                wait();
            }
            return at;
        }
    }

    public static void main(String[] args) throws Exception {
        servers = args[0];
        path = args[1];
        int clients = Integer.parseInt(args[2]);
        int instances = Integer.parseInt(args[3]);
        int watching = Integer.parseInt(args[4]);
        long duration = Long.parseLong(args[5]);
        ExecutorService pool = Executors.newFixedThreadPool(clients * REGISTRARS);
        List<Future<?>> registered = new ArrayList<>();
        for (int c = 0; c < clients; c++) {
            ServiceDiscovery<Void> process = connect();
            processes.add(process);
            for (int i = 0; i < instances; i++) {
                registered.add(pool.submit(() -> {
                    process.registerService(instance());
                    return null;
                }));
            }
        }
        for (Future<?> one : registered) {
            one.get();
        }
        pool.shutdown();
        int there = clients * instances;
        for (int w = 0; w < watching; w++) {
            watchers.add(new Watch());
        }
        for (Watch watch : watchers) {
            watch.expect(there);
            watch.cacheChanged(); // it may have them already
            watch.await();
        }
        change(there, System.nanoTime() + duration * 1_000_000 / 2); // to warm up
        seen.clear();
        changes = 0;
        OperatingSystemMXBean used = ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
        double[] before = traffic();
        long cpu = used.getProcessCpuTime();
        long began = System.nanoTime();
        change(there, began + duration * 1_000_000);
        double seconds = (System.nanoTime() - began) / 1e9;
        cpu = used.getProcessCpuTime() - cpu;
        double[] after = traffic();
        double[] lookUp = lookUp();
        double[] sorted = seen.stream().mapToDouble(s -> s).sorted().toArray();
        System.out.printf(Locale.ROOT, "{\"turns\":%d,\"seconds\":%f,\"seen_p50_us\":%f,\"seen_p99_us\":%f,"
                        + "\"requests_per_change\":%f,\"bytes_per_change\":%f,\"client_cpu_us_per_turn\":%f,"
                        + "\"lookup_ns\":%f,\"lookup_heap_bytes\":%f,\"requests_per_lookup\":%f}%n",
                changes, seconds, percentile(sorted, 50), percentile(sorted, 99),
                (after[0] - before[0]) / changes, (after[1] - before[1]) / changes, cpu / 1e3 / changes,
                lookUp[0], lookUp[1], lookUp[2]);
        System.out.flush();
        Runtime.getRuntime().halt(0); // closing a thousand instances one by one is not measured
    }

    private static ServiceDiscovery<Void> connect() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
                servers, 10_000, 10_000, new ExponentialBackoffRetry(100, 5));
        client.start();
        client.blockUntilConnected();
        ServiceDiscovery<Void> discovery =
                ServiceDiscoveryBuilder.builder(Void.class).client(client).basePath(path).build();
        discovery.start();
        return discovery;
    }

    private static ServiceInstance<Void> instance() throws Exception {
        return ServiceInstance.<Void>builder().name(SERVICE).address("192.0.2.1").port(8080).build();
    }

    /** Registers an instance and removes it, each once all watchers have seen the change before. */
    private static void change(int there, long until) throws Exception {
        while (changes == 0 || System.nanoTime() < until) {
            ServiceDiscovery<Void> process = processes.get(changes % processes.size());
            ServiceInstance<Void> instance = instance();
            watchers.forEach(watch -> watch.expect(there + 1));
            long began = System.nanoTime();
            process.registerService(instance);
            for (Watch watch : watchers) {
                seen.add((watch.await() - began) / 1e3);
            }
            watchers.forEach(watch -> watch.expect(there));
            process.unregisterService(instance);
            for (Watch watch : watchers) {
                watch.await();
            }
            changes++;
        }
    }

    /** Asks a provider many times; returns nanoseconds, bytes on the heap and requests for each. */
    private static double[] lookUp() throws Exception {
        ServiceProvider<Void> provider = connect().serviceProviderBuilder().serviceName(SERVICE).build();
        provider.start();
        for (int i = 0; i < LOOK_UPS / 10; i++) { // for the compiler
            provider.getInstance();
        }
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long self = Thread.currentThread().getId();
        double[] before = traffic();
        long allocated = threads.getThreadAllocatedBytes(self);
        long began = System.nanoTime();
        for (int i = 0; i < LOOK_UPS; i++) {
            if (provider.getInstance() == null) {
                throw new IllegalStateException("no instance");
            }
        }
        double nanoseconds = System.nanoTime() - began;
        double bytes = threads.getThreadAllocatedBytes(self) - allocated;
        double[] after = traffic();
        return new double[] {nanoseconds / LOOK_UPS, bytes / LOOK_UPS, (after[0] - before[0]) / LOOK_UPS};
    }

    /** What all servers have received, in requests, and what the loopback interface has carried, in bytes. */
    private static double[] traffic() throws IOException {
        double received = 0;
        for (String server : servers.split(",")) {
            int colon = server.lastIndexOf(':');
            try (Socket socket = new Socket(server.substring(0, colon), Integer.parseInt(server.substring(colon + 1)))) {
                socket.getOutputStream().write("mntr".getBytes(StandardCharsets.US_ASCII));
                String figures = new String(socket.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
                for (String line : figures.split("\n")) {
                    String[] figure = line.split("\t");
                    if (figure[0].equals("zk_packets_received")) {
                        received += Double.parseDouble(figure[1]);
                    }
                }
            }
        }
        return new double[] {
            received, Double.parseDouble(Files.readString(Path.of("/sys/class/net/lo/statistics/rx_bytes")).trim())
        };
    }

    private static double percentile(double[] sorted, int p) {
        return sorted.length == 0 ? 0 : sorted[Math.min(sorted.length * p / 100, sorted.length - 1)];
    }
}
