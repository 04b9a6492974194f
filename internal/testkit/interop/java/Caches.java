import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;
import org.apache.curator.framework.recipes.cache.TreeCacheSelector;

/**
 * Curator's caches with limits.
 *
 * <pre>
 * cache-tree PATH DEPTH CLOSED LEFT  opens a TreeCache and waits until it is initialized. Its selector goes into no
 *                                    znode named CLOSED, and accepts none named LEFT; "-" is no name. DEPTH "-" is all
 * cache-children PATH                opens a PathChildrenCache that has its children
 * cache-list PATH                    path and data of all that the open cache has below PATH, and of PATH itself
 * cache-list-children PATH CHILD     names and data of the children of CHILD in the open TreeCache
 * cache-asked PATH                   what its selector was asked, sorted: "traverse " or "accept ", and the path
 * cache-close PATH
 * </pre>
 */
@SuppressWarnings("deprecation") // of the classes under test
final class Caches {
    /** Those that are open, by connection and path. */
    private static final Map<String, Cache> CACHES = new ConcurrentHashMap<>();

    private static final class Cache {
        TreeCache tree;
        PathChildrenCache children;
        final Set<String> asked = new ConcurrentSkipListSet<>();
    }

    private Caches() {}

    static List<String> obey(CuratorFramework client, String command, List<String> args) throws Exception {
        String path = args.get(0);
        String key = System.identityHashCode(client) + path;
        switch (command) {
            case "cache-tree":
                CACHES.put(key, tree(client, path, args.get(1), args.get(2), args.get(3)));
                return List.of();
            case "cache-children":
                Cache opened = new Cache();
                opened.children = new PathChildrenCache(client, path, true);
                opened.children.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
                CACHES.put(key, opened);
                return List.of();
            case "cache-list":
                Cache cache = CACHES.get(key);
                List<ChildData> all = new ArrayList<>();
                if (cache.tree != null) {
                    add(cache.tree, path, all);
                } else {
                    all.addAll(cache.children.getCurrentData());
                }
                return words(all, false);
            case "cache-list-children":
                Map<String, ChildData> children = CACHES.get(key).tree.getCurrentChildren(args.get(1));
                return children == null ? List.of() : words(children.values(), true);
            case "cache-asked":
                return new ArrayList<>(CACHES.get(key).asked);
            case "cache-close":
                Cache closed = CACHES.remove(key);
                if (closed.tree != null) {
                    closed.tree.close();
                } else {
                    closed.children.close();
                }
                return List.of();
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }

    private static Cache tree(CuratorFramework client, String path, String depth, String closed, String left)
            throws Exception {
        Cache cache = new Cache();
        TreeCache.Builder builder = TreeCache.newBuilder(client, path).setSelector(new TreeCacheSelector() {
            @Override
            public boolean traverseChildren(String at) {
                cache.asked.add("traverse " + at);
                return !at.endsWith("/" + closed);
            }

            @Override
            public boolean acceptChild(String at) {
                cache.asked.add("accept " + at);
                return !at.endsWith("/" + left);
            }
        });
        if (!depth.equals("-")) {
            builder.setMaxDepth(Integer.parseInt(depth));
        }
        cache.tree = builder.build();
        CountDownLatch initialized = new CountDownLatch(1);
        cache.tree.getListenable().addListener((on, event) -> {
            if (event.getType() == TreeCacheEvent.Type.INITIALIZED) {
                initialized.countDown();
            }
        });
        cache.tree.start();
        initialized.await();
        return cache;
    }

    /** Unlike the iterator of TreeCache this does not fail while the tree changes. */
    private static void add(TreeCache tree, String path, List<ChildData> all) {
        ChildData data = tree.getCurrentData(path);
        Map<String, ChildData> children = tree.getCurrentChildren(path);
        if (data != null) {
            all.add(data);
        }
        if (children != null) {
            for (ChildData child : children.values()) {
                add(tree, child.getPath(), all);
            }
        }
    }

    private static List<String> words(Collection<ChildData> all, boolean names) {
        List<String> words = new ArrayList<>();
        for (ChildData data : all) {
            words.add(names ? data.getPath().substring(data.getPath().lastIndexOf('/') + 1) : data.getPath());
            words.add(new String(data.getData(), StandardCharsets.UTF_8));
        }
        return words;
    }
}
