import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.imps.ProtectedUtils;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/**
 * Reads and writes without a lock.
 *
 * <pre>
 * create PATH MODE [DATA]            path; below containers, with the client's default data
 * create-protected PATH MODE [DATA]
 * get PATH                           data, version, ephemeral owner, czxid
 * set PATH DATA
 * delete PATH
 * children PATH
 * is-protected NAME                  true or false, and the name without the protection
 * transact OP...                     create PATH DATA, set PATH DATA, check PATH VERSION, delete PATH
 * </pre>
 */
final class Data {
    private Data() {}

    static List<String> obey(CuratorFramework client, String command, List<String> args) throws Exception {
        switch (command) {
            case "create", "create-protected":
                return List.of(create(client, command.equals("create-protected"), args));
            case "get":
                return get(client, args.get(0));
            case "set":
                client.setData().forPath(args.get(0), bytes(args.get(1)));
                return List.of();
            case "delete":
                client.delete().forPath(args.get(0));
                return List.of();
            case "children":
                return client.getChildren().forPath(args.get(0));
            case "is-protected":
                return List.of(
                        Boolean.toString(ProtectedUtils.isProtectedZNode(args.get(0))), ProtectedUtils.normalize(args.get(0)));
            case "transact":
                client.transaction().forOperations(operations(client, args));
                return List.of();
            default:
                throw new IllegalArgumentException("no command " + command);
        }
    }

    private static String create(CuratorFramework client, boolean isProtected, List<String> args) throws Exception {
        CreateMode mode = CreateMode.valueOf(args.get(1));
        var parents = client.create().creatingParentContainersIfNeeded();
        var create = isProtected ? parents.withProtection().withMode(mode) : parents.withMode(mode);
        return args.size() > 2 ? create.forPath(args.get(0), bytes(args.get(2))) : create.forPath(args.get(0));
    }

    private static List<String> get(CuratorFramework client, String path) throws Exception {
        Stat stat = new Stat();
        byte[] data = client.getData().storingStatIn(stat).forPath(path);
        return List.of(
                new String(data, StandardCharsets.UTF_8),
                Integer.toString(stat.getVersion()),
                Long.toString(stat.getEphemeralOwner()),
                Long.toString(stat.getCzxid()));
    }

    private static List<CuratorOp> operations(CuratorFramework client, List<String> words) throws Exception {
        List<CuratorOp> ops = new ArrayList<>();
        for (int i = 0; i < words.size(); ) {
            String op = words.get(i++);
            String path = words.get(i++);
            ops.add(switch (op) {
                case "create" -> client.transactionOp().create().forPath(path, bytes(words.get(i++)));
                case "set" -> client.transactionOp().setData().forPath(path, bytes(words.get(i++)));
                case "check" -> client.transactionOp().check().withVersion(Integer.parseInt(words.get(i++))).forPath(path);
                case "delete" -> client.transactionOp().delete().forPath(path);
                default -> throw new IllegalArgumentException("no operation " + op);
            });
        }
        return ops;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
