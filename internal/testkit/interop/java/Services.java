import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.x.discovery.DownInstancePolicy;
import org.apache.curator.x.discovery.ProviderStrategy;
import org.apache.curator.x.discovery.ServiceCache;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.ServiceType;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.details.JsonInstanceSerializer;
import org.apache.curator.x.discovery.strategies.RandomStrategy;
import org.apache.curator.x.discovery.strategies.RoundRobinStrategy;
import org.apache.curator.x.discovery.strategies.StickyStrategy;

/**
 * Curator's x-discovery.
 *
 * <pre>
 * service-register PATH INSTANCE...
 * service-update PATH INSTANCE...
 * service-unregister PATH INSTANCE...
 * service-list PATH NAME             the instances, nine words each
 * service-await PATH NAME ID PORT    answers when a ServiceCache has the instance; "-": has not
 * service-provide PATH NAME NUMBER   so many ids that a ServiceProvider returns
 * service-open PATH NAME STRATEGY THRESHOLD TIMEOUT
 *                                    opens a ServiceProvider with a DownInstancePolicy, in milliseconds
 * service-choose PATH NAME NUMBER    so many ids that the open one returns; "-" for none
 * service-up PATH NAME               ID:PORT of all instances that the open one returns
 * service-note PATH NAME ID          notes an error of one of these
 * service-write COMPATIBLE INSTANCE...   what JsonInstanceSerializer writes
 * service-read COMPATIBLE JSON       the instance that it reads
 * rest-write INSTANCE                what a DiscoveryResource of texts writes
 *     INSTANCE: name, id, address, port, SSL port, payload, time, type, template of the URI, enabled;
 *         "-" is null
 * </pre>
 */
final class Services {
    /** By connection and path: it knows what it has registered. */
    private static final Map<String, ServiceDiscovery<String>> DISCOVERIES = new ConcurrentHashMap<>();

    /** Those that are open, by connection, path and name. */
    private static final Map<String, ServiceProvider<String>> PROVIDERS = new ConcurrentHashMap<>();

    private Services() {}

    static List<String> obey(CuratorFramework client, String command, List<String> args) throws Exception {
        switch (command) {
            case "service-write":
                return List.of(new String(
                        serializer(args.get(0)).serialize(instance(args.subList(1, args.size()))), StandardCharsets.UTF_8));
            case "service-read":
                return words(serializer(args.get(0)).deserialize(args.get(1).getBytes(StandardCharsets.UTF_8)));
            case "rest-write":
                return List.of(ofResource(instance(args)));
            case "service-register":
                discovery(client, args.get(0)).registerService(instance(args.subList(1, args.size())));
                return List.of();
            case "service-update":
                discovery(client, args.get(0)).updateService(instance(args.subList(1, args.size())));
                return List.of();
            case "service-unregister":
                discovery(client, args.get(0)).unregisterService(instance(args.subList(1, args.size())));
                return List.of();
            case "service-list":
                List<String> all = new ArrayList<>();
                for (ServiceInstance<String> instance : discovery(client, args.get(0)).queryForInstances(args.get(1))) {
                    all.addAll(words(instance));
                }
                return all;
            case "service-await":
                await(discovery(client, args.get(0)), args.get(1), args.get(2), args.get(3));
                return List.of();
            case "service-provide":
                return provide(discovery(client, args.get(0)), args.get(1), Integer.parseInt(args.get(2)));
            case "service-open":
                ServiceProvider<String> opened = discovery(client, args.get(0))
                        .serviceProviderBuilder()
                        .serviceName(args.get(1))
                        .providerStrategy(strategy(args.get(2)))
                        .downInstancePolicy(new DownInstancePolicy(
                                Long.parseLong(args.get(4)), TimeUnit.MILLISECONDS, Integer.parseInt(args.get(3))))
                        .build();
                opened.start();
                PROVIDERS.put(key(client, args), opened);
                return List.of();
            case "service-choose":
                return choose(PROVIDERS.get(key(client, args)), Integer.parseInt(args.get(2)));
            case "service-up":
                List<String> up = new ArrayList<>();
                for (ServiceInstance<String> instance : PROVIDERS.get(key(client, args)).getAllInstances()) {
                    up.add(instance.getId() + ":" + instance.getPort());
                }
                return up;
            case "service-note":
                ServiceProvider<String> provider = PROVIDERS.get(key(client, args));
                for (ServiceInstance<String> instance : provider.getAllInstances()) {
                    if (instance.getId().equals(args.get(2))) {
                        provider.noteError(instance);
                    }
                }
                return List.of();
            default:
                return Caches.obey(client, command, args);
        }
    }

    private static String key(CuratorFramework client, List<String> args) {
        return System.identityHashCode(client) + args.get(0) + "/" + args.get(1);
    }

    private static ProviderStrategy<String> strategy(String name) {
        switch (name) {
            case "round robin":
                return new RoundRobinStrategy<>();
            case "random":
                return new RandomStrategy<>();
            case "sticky":
                return new StickyStrategy<>(new RoundRobinStrategy<>());
            default:
                throw new IllegalArgumentException("no strategy " + name);
        }
    }

    private static List<String> choose(ServiceProvider<String> provider, int number) throws Exception {
        List<String> ids = new ArrayList<>();
        while (ids.size() < number) {
            ServiceInstance<String> instance = provider.getInstance();
            ids.add(instance == null ? "-" : instance.getId());
        }
        return ids;
    }

    private static JsonInstanceSerializer<String> serializer(String compatible) {
        return new JsonInstanceSerializer<>(String.class, Boolean.parseBoolean(compatible));
    }

    private static ServiceDiscovery<String> discovery(CuratorFramework client, String path) throws Exception {
        String key = System.identityHashCode(client) + path;
        ServiceDiscovery<String> found = DISCOVERIES.get(key);
        if (found == null) {
            found = ServiceDiscoveryBuilder.builder(String.class).client(client).basePath(path).build();
            found.start();
            DISCOVERIES.put(key, found);
        }
        return found;
    }

    /** The fields and their order are those of JsonServiceInstanceMarshaller, which no Debian package has. */
    private static String ofResource(ServiceInstance<String> instance) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        ObjectNode json = mapper.createObjectNode()
                .put("name", instance.getName())
                .put("id", instance.getId())
                .put("address", instance.getAddress());
        if (instance.getPort() != null) {
            json.put("port", instance.getPort());
        }
        if (instance.getSslPort() != null) {
            json.put("sslPort", instance.getSslPort());
        }
        json.put("registrationTimeUTC", instance.getRegistrationTimeUTC())
                .put("serviceType", instance.getServiceType().name());
        if (instance.getPayload() != null) {
            json.put("payload", instance.getPayload());
        }
        return mapper.writeValueAsString(json);
    }

    private static String orNull(String word) {
        return word.equals("-") ? null : word;
    }

    private static Integer number(String word) {
        return word.equals("-") ? null : Integer.valueOf(word);
    }

    private static ServiceInstance<String> instance(List<String> words) {
        String template = orNull(words.get(8));
        return new ServiceInstance<>(
                words.get(0),
                words.get(1),
                orNull(words.get(2)),
                number(words.get(3)),
                number(words.get(4)),
                orNull(words.get(5)),
                Long.parseLong(words.get(6)),
                ServiceType.valueOf(words.get(7)),
                template == null ? null : new UriSpec(template),
                Boolean.parseBoolean(words.get(9)));
    }

    private static List<String> words(ServiceInstance<String> instance) {
        return List.of(
                instance.getName(),
                instance.getId(),
                word(instance.getAddress()),
                word(instance.getPort()),
                word(instance.getSslPort()),
                word(instance.getPayload()),
                Long.toString(instance.getRegistrationTimeUTC()),
                instance.getServiceType().name(),
                instance.getUriSpec() == null ? "-" : template(instance.getUriSpec()),
                Boolean.toString(instance.isEnabled()));
    }

    private static String word(Object value) {
        return value == null ? "-" : value.toString();
    }

    private static String template(UriSpec spec) {
        StringBuilder text = new StringBuilder();
        for (UriSpec.Part part : spec.getParts()) {
            text.append(part.isVariable() ? "{" + part.getValue() + "}" : part.getValue());
        }
        return text.toString();
    }

    private static void await(ServiceDiscovery<String> discovery, String name, String id, String port) throws Exception {
        Predicate<ServiceInstance<String>> wanted = instance -> instance.getId().equals(id)
                && (port.equals("-") || word(instance.getPort()).equals(port));
        try (ServiceCache<String> cache = discovery.serviceCacheBuilder().name(name).build()) {
            cache.start();
            while (cache.getInstances().stream().anyMatch(wanted) == port.equals("-")) {
                Thread.sleep(1);
            }
        }
    }

    private static List<String> provide(ServiceDiscovery<String> discovery, String name, int number) throws Exception {
        List<String> ids = new ArrayList<>();
        try (ServiceProvider<String> provider =
                discovery.serviceProviderBuilder().serviceName(name).build()) {
            provider.start();
            while (ids.size() < number) {
                ServiceInstance<String> instance = provider.getInstance();
                if (instance != null) {
                    ids.add(instance.getId());
                }
            }
        }
        return ids;
    }
}
