import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Draws invoice numbers, one at a time with the Go program beside it. */
public final class Draw {
    private static final String NUMBER = "/examples/invoices/number";

    private Draw() {}

    public static void main(String[] args) throws Exception {
        System.setProperty("org.slf4j.simpleLogger.defaultLogLevel", "error");
        String connect = args[0];
        int turns = Integer.parseInt(args[1]);
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(connect, new ExponentialBackoffRetry(100, 5))) {
            client.start();
            InterProcessMutex mutex = new InterProcessMutex(client, "/examples/invoices/lock");
            for (int turn = 0; turn < turns; turn++) {
                mutex.acquire();
                try {
                    System.out.println("java draws " + next(client));
                } finally {
                    mutex.release();
                }
            }
        }
    }

    /** Reads the number and writes the next one, in two steps that only the lock makes one. */
    private static int next(CuratorFramework client) throws Exception {
        if (client.checkExists().forPath(NUMBER) == null) {
            client.create().creatingParentsIfNeeded().forPath(NUMBER, "0".getBytes(UTF_8));
        }
        int number = Integer.parseInt(new String(client.getData().forPath(NUMBER), UTF_8)) + 1;
        client.setData().forPath(NUMBER, Integer.toString(number).getBytes(UTF_8));
        return number;
    }
}
