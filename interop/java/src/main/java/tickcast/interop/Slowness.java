package tickcast.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** An application that takes its time for each update: as many microseconds as a file says. The file may change. */
final class Slowness implements Runnable {
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(50);

    private final Path path;
    private long nextLookNs = System.nanoTime();
    private long microseconds;

    Slowness(String path) {
        this.path = Path.of(path);
    }

    @Override
    public void run() {
        long now = System.nanoTime();
        if (now - nextLookNs >= 0) {
            nextLookNs = now + LOOK_NS;
            look();
        }
        if (microseconds > 0) {
            LockSupport.parkNanos(TimeUnit.MICROSECONDS.toNanos(microseconds));
        }
    }

    /** What is not there, or not whole yet, changes nothing. */
    private void look() {
        try {
            microseconds = Long.parseLong(Files.readString(path).strip());
        } catch (IOException | NumberFormatException e) {
            return;
        }
    }
}
