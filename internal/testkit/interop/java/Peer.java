import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * A process that does with Apache Curator what it is told. Standard input has one command a line,
 * its words separated by tabs: a number, the name of an actor, the command, its arguments. Standard
 * output has the answer, in any order: the number, "ok" or "error", the results.
 *
 * <p>An actor is a thread with a Curator client of its own; it begins with the first command that
 * names it. What the commands are is said at {@link Actor}. The process ends with its input.
 */
public final class Peer {
    private static final PrintStream OUT = new PrintStream(System.out, false, StandardCharsets.UTF_8);

    private Peer() {}

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Map<String, Actor> actors = new HashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            Actor actor = actors.computeIfAbsent(words[1], Actor::new);
            actor.submit(words[0], words[2], Arrays.asList(words).subList(3, words.length));
        }
        Runtime.getRuntime().halt(0); // the sessions that are still open are the driver's to miss
    }

    static void ok(String number, List<String> results) {
        List<String> words = new ArrayList<>(List.of(number, "ok"));
        words.addAll(results);
        answer(words);
    }

    static void error(String number, Throwable failure) {
        failure.printStackTrace();
        answer(List.of(number, "error", failure.getClass().getName(), String.valueOf(failure.getMessage())));
    }

    private static synchronized void answer(List<String> words) {
        List<String> clean = words.stream().map(w -> w.replaceAll("[\t\r\n]", " ")).toList();
        OUT.print(String.join("\t", clean) + "\n");
        OUT.flush();
    }
}
