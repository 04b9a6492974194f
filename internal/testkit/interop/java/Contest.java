import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.locks.LockSupport;

/**
 * Turns at a lock that leave evidence in a folder. Each hold appends a line to the file log when it
 * begins and one when it ends, each in one write, which the kernel puts in order: "begin" or "end",
 * "exclusive" or "shared", who, czxid of the node. An exclusive hold also adds one to the number in
 * the file counter, reading and writing as if there were nobody else.
 */
final class Contest {
    private final String who;
    private final Path folder;
    private final int turns;

    Contest(String who, Path folder, int turns) {
        this.who = who;
        this.folder = folder;
        this.turns = turns;
    }

    void contend(Lock lock) throws Exception {
        for (int i = 0; i < turns; i++) {
            lock.acquire(Lock.FOREVER);
            long czxid = lock.czxid();
            log("begin exclusive", czxid);
            increment();
            log("end exclusive", czxid);
            lock.release();
        }
    }

    void share(Lock lock) throws Exception {
        for (int i = 0; i < turns; i++) {
            lock.acquire(Lock.FOREVER);
            long czxid = lock.czxid();
            log("begin shared", czxid);
            work();
            log("end shared", czxid);
            lock.release();
        }
    }

    private String increment() throws IOException {
        String next = Long.toString(Long.parseLong(counter()) + 1);
        work();
        Files.writeString(folder.resolve("counter"), next);
        return next;
    }

    private String counter() throws IOException {
        return Files.readString(folder.resolve("counter")).trim();
    }

    /** Takes up to half a millisecond, between what is read and what is written. */
    private static void work() {
        LockSupport.parkNanos(ThreadLocalRandom.current().nextLong(500_000));
    }

    private void log(String what, long czxid) throws IOException {
        byte[] line = (what + " " + who + " " + czxid + "\n").getBytes(StandardCharsets.UTF_8);
        Files.write(folder.resolve("log"), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }
}
