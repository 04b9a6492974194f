// SPDX-License-Identifier: Apache-2.0

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Acquires a lock, says so, and says when a listener hears that the connection is lost. */
public final class BenchFailover {
    private BenchFailover() {}

    public static void main(String[] args) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], Integer.parseInt(args[2]), 10_000, new ExponentialBackoffRetry(100, 5));
        client.start();
        InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
        mutex.acquire();
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.SUSPENDED) {
                System.out.println("lost");
            }
        });
        System.out.println("held");
        Thread.sleep(Long.MAX_VALUE);
    }
}
