package tickcast.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Many consumers in one process: each is a {@link ConsumerTool} on a thread of its own, with a connection and a login
 * of its own. Their lines say which one they are about.
 */
final class CrowdTool {
    private CrowdTool() {
    }

    /** Exit status 0 if all consumers are content. */
    static int run(String[] words) throws UsageError {
        long count = 1;
        long each = 0;
        List<String> items = new ArrayList<>();
        List<String> common = new ArrayList<>();
        String user = "crowd";
        for (int i = 0; i < words.length; i++) {
            String value = i + 1 < words.length ? words[i + 1] : "";
            switch (words[i]) {
                case "--count":
                    count = Arguments.number("--count", value, 1, 1_000);
                    break;
                case "--each":
                    each = Arguments.number("--each", value, 1, 1_000);
                    break;
                case "--item":
                    items.add(value);
                    break;
                case "--user":
                    user = value;
                    break;
                default:
                    common.add(words[i]);
                    continue;
            }
            i++;
        }
        List<ConsumerOptions> all = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            List<String> own = new ArrayList<>(common);
            own.addAll(List.of("--user", user + "-" + number));
            for (String item : share(items, number, (int) each)) {
                own.addAll(List.of("--item", item));
            }
            all.add(ConsumerOptions.parse(own.toArray(new String[0])));
        }
        return run(all);
    }

    /** The items of one consumer: all, or so many from its place on, and again from the first. */
    private static List<String> share(List<String> items, int number, int each) {
        if (each == 0 || each >= items.size()) {
            return items;
        }
        List<String> own = new ArrayList<>();
        for (int i = 0; i < each; i++) {
            own.add(items.get((number * each + i) % items.size()));
        }
        return own;
    }

    private static int run(List<ConsumerOptions> all) {
        AtomicInteger failed = new AtomicInteger();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < all.size(); i++) {
            int number = i;
            Thread thread = new Thread(() -> {
                Json.speakFor(number);
                // One that ends by an exception has said nothing else.
                int status = 1;
                try {
                    // The process ends when all are judged: the library takes seconds to close each.
                    status = new ConsumerTool(all.get(number)).judged();
                } finally {
                    failed.addAndGet(status);
                }
            }, "consumer-" + i);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                return 1;
            }
        }
        return failed.get() == 0 ? 0 : 1;
    }
}
