package tickcast.interop;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;

/** JSON text of maps, collections, numbers, booleans, strings and null; one object a line on stdout. */
final class Json {
    /** UTF-8 whatever the locale says. */
    private static final PrintStream OUT =
            new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
    /** The consumer of this thread, where a process has several; null where it has one. */
    private static final ThreadLocal<Integer> CONSUMER = new ThreadLocal<>();
    /** Consumers that have written their last line. */
    private static final Set<Integer> ENDED = new HashSet<>();

    private final StringBuilder text = new StringBuilder();

    /** An object of the given names and values, in this order. Absent (null) values stay out. */
    static Map<String, Object> object(Object... namesAndValues) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            if (namesAndValues[i + 1] != null) {
                object.put((String) namesAndValues[i], namesAndValues[i + 1]);
            }
        }
        return object;
    }

    /** From now on each line of this thread says which of several consumers it is about. */
    static void speakFor(int consumer) {
        CONSUMER.set(consumer);
    }

    /** Writes one event. Readers see it at once, for they may wait for it. */
    static void line(String event, Object... namesAndValues) {
        line(event, object(namesAndValues));
    }

    static void line(String event, Map<String, Object> content) {
        Map<String, Object> line = object("ev", event, "consumer", CONSUMER.get());
        line.putAll(content);
        String text = write(line);
        synchronized (OUT) {
            if (!ENDED.contains(CONSUMER.get())) {
                OUT.println(text);
                OUT.flush();
            }
        }
    }

    /** Writes the last event; what the library still tells while it closes comes to nothing. */
    static void lastLine(String event, Object... namesAndValues) {
        synchronized (OUT) {
            line(event, namesAndValues);
            ENDED.add(CONSUMER.get());
        }
    }

    static String write(Object value) {
        Json json = new Json();
        json.value(value);
        return json.text.toString();
    }

    private void value(Object value) {
        if (value instanceof Map) {
            object((Map<?, ?>) value);
        } else if (value instanceof Collection) {
            array((Collection<?>) value);
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            text.append(value);
        } else {
            string(value.toString());
        }
    }

    private void object(Map<?, ?> map) {
        char before = '{';
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            text.append(before);
            string(entry.getKey().toString());
            text.append(':');
            value(entry.getValue());
            before = ',';
        }
        text.append(map.isEmpty() ? "{}" : "}");
    }

    private void array(Collection<?> values) {
        char before = '[';
        for (Object element : values) {
            text.append(before);
            value(element);
            before = ',';
        }
        text.append(values.isEmpty() ? "[]" : "]");
    }

    private void string(String s) {
        text.append('"');
        for (int i = 0; i < s.length(); i++) {
            char c = s.charAt(i);
            if (c == '"' || c == '\\') {
                text.append('\\').append(c);
            } else if (c < 0x20 || c == 0x7f || Character.isSurrogate(c)) {
                text.append(String.format("\\u%04x", (int) c));
            } else {
                text.append(c);
            }
        }
        text.append('"');
    }
}
