import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.imps.ProtectedUtils;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * Reads and writes without a lock.
 *
 * <pre>
 * create PATH MODE [DATA]            path; below containers, with the client's default data
 * create-protected PATH MODE [DATA]
 * create-ttl PATH MILLISECONDS DATA
 * create-compressed PATH DATA
 * create-private PATH DATA           for this client's credentials only
 * get PATH                           data, version, ephemeral owner, czxid
 * get-compressed PATH                data
 * set PATH DATA
 * delete PATH
 * children PATH
 * get-acl PATH                       for each entry its permissions, scheme and id
 * set-acl PATH [PERMISSIONS SCHEME ID]...
 * in NAMESPACE COMMAND ...           any of these within a namespace
 * is-protected NAME                  true or false, and the name without the protection
 * transact OP...                     for each operation its type, path and resulting version
 *     OP: create PATH DATA, create-compressed PATH DATA, create-sequential PATH DATA,
 *         set PATH DATA, check PATH VERSION, delete PATH
 * </pre>
 */
final class Data {
    private Data() {}

    static List<String> obey(CuratorFramework client, String command, List<String> args) throws Exception {
        switch (command) {
            case "create", "create-protected":
                return List.of(create(client, command.equals("create-protected"), args));
            case "create-ttl":
                long ttl = Long.parseLong(args.get(1));
                return List.of(client.create()
                        .withTtl(ttl)
                        .withMode(CreateMode.PERSISTENT_WITH_TTL)
                        .forPath(args.get(0), bytes(args.get(2))));
            case "create-compressed":
                return List.of(client.create().compressed().forPath(args.get(0), bytes(args.get(1))));
            case "create-private":
                return List.of(
                        client.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(args.get(0), bytes(args.get(1))));
            case "get":
                return get(client, args.get(0));
            case "get-compressed":
                return List.of(text(client.getData().decompressed().forPath(args.get(0))));
            case "set":
                client.setData().forPath(args.get(0), bytes(args.get(1)));
                return List.of();
            case "delete":
                client.delete().forPath(args.get(0));
                return List.of();
            case "children":
                return client.getChildren().forPath(args.get(0));
            case "get-acl":
                return client.getACL().forPath(args.get(0)).stream()
                        .flatMap(acl -> Stream.of(
                                Integer.toString(acl.getPerms()), acl.getId().getScheme(), acl.getId().getId()))
                        .toList();
            case "set-acl":
                client.setACL().withACL(entries(args.subList(1, args.size()))).forPath(args.get(0));
                return List.of();
            case "in":
                return obey(client.usingNamespace(args.get(0)), args.get(1), args.subList(2, args.size()));
            case "is-protected":
                return List.of(
                        Boolean.toString(ProtectedUtils.isProtectedZNode(args.get(0))), ProtectedUtils.normalize(args.get(0)));
            case "transact":
                return client.transaction().forOperations(operations(client, args)).stream()
                        .flatMap(Data::words)
                        .toList();
            default:
                return Values.obey(client, command, args);
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
                text(data),
                Integer.toString(stat.getVersion()),
                Long.toString(stat.getEphemeralOwner()),
                Long.toString(stat.getCzxid()));
    }

    private static List<ACL> entries(List<String> words) {
        List<ACL> entries = new ArrayList<>();
        for (int i = 0; i < words.size(); i += 3) {
            entries.add(new ACL(Integer.parseInt(words.get(i)), new Id(words.get(i + 1), words.get(i + 2))));
        }
        return entries;
    }

    /** Returns the type of an operation, the path and the version that it has led to, where there is one. */
    private static Stream<String> words(CuratorTransactionResult result) {
        Stat stat = result.getResultStat();
        return Stream.of(
                result.getType().toString(),
                String.valueOf(result.getResultPath()),
                stat == null ? "null" : Integer.toString(stat.getVersion()));
    }

    private static List<CuratorOp> operations(CuratorFramework client, List<String> words) throws Exception {
        List<CuratorOp> ops = new ArrayList<>();
        for (int i = 0; i < words.size(); ) {
            String op = words.get(i++);
            String path = words.get(i++);
            ops.add(switch (op) {
                case "create" -> client.transactionOp().create().forPath(path, bytes(words.get(i++)));
                case "create-compressed" -> client.transactionOp()
                        .create()
                        .compressed()
                        .forPath(path, bytes(words.get(i++)));
                case "create-sequential" -> client.transactionOp()
                        .create()
                        .withMode(CreateMode.PERSISTENT_SEQUENTIAL)
                        .forPath(path, bytes(words.get(i++)));
                case "set" -> client.transactionOp().setData().forPath(path, bytes(words.get(i++)));
                case "check" -> client.transactionOp().check().withVersion(Integer.parseInt(words.get(i++))).forPath(path);
                case "delete" -> client.transactionOp().delete().forPath(path);
                default -> throw new IllegalArgumentException("no operation " + op);
            });
        }
        return ops;
    }

    private static String text(byte[] data) {
        return data == null ? "" : new String(data, StandardCharsets.UTF_8);
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
