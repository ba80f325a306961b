package tickcast.interop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A file that says where items are at the end: lines `DOMAIN:NAME NUMBER`. It comes while items are watched. */
final class PlaceFile {
    private static final long LOOK_NS = TimeUnit.MILLISECONDS.toNanos(50);

    private final Path path;
    private long nextLookNs = System.nanoTime();
    /** Sequence numbers by item, null: the file was not there yet. */
    private Map<String, Long> numbers;

    /** @param path null: there is none, and nobody asks */
    PlaceFile(String path) {
        this.path = path == null ? null : Path.of(path);
    }

    /** Whether the file is there and each item has the number that it names. */
    boolean isReached(long now, List<WatchedItem> items) {
        if (numbers == null && now - nextLookNs >= 0) {
            nextLookNs = now + LOOK_NS;
            read();
        }
        return numbers != null && items.stream()
                .allMatch(item -> numbers.getOrDefault(item.key(), -2L) == item.sequence.last());
    }

    private void read() {
        if (!Files.exists(path)) {
            return;
        }
        Map<String, Long> found = new HashMap<>();
        try {
            for (String line : Files.readAllLines(path)) {
                int space = line.lastIndexOf(' ');
                found.put(line.substring(0, space), Long.parseLong(line.substring(space + 1)));
            }
        } catch (IOException | NumberFormatException | IndexOutOfBoundsException e) {
            throw new IllegalStateException(path + " does not hold lines DOMAIN:NAME NUMBER", e);
        }
        numbers = found;
    }
}
