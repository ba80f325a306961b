package tickcast.interop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Command line of `--name value` and `--flag`, checked against the options a tool has. */
final class Arguments {
    /** What follows an option's name. */
    enum Kind { VALUE, FLAG }

    private final Map<String, List<String>> given = new LinkedHashMap<>();

    Arguments(String[] words, Map<String, Kind> known) throws UsageError {
        for (int i = 0; i < words.length; i++) {
            String name = words[i].startsWith("--") ? words[i].substring(2) : null;
            Kind kind = name == null ? null : known.get(name);
            if (kind == null) {
                throw new UsageError("unknown option " + words[i]);
            }
            if (kind == Kind.VALUE && ++i == words.length) {
                throw new UsageError("--" + name + " needs a value");
            }
            given.computeIfAbsent(name, n -> new ArrayList<>()).add(kind == Kind.VALUE ? words[i] : "");
        }
    }

    boolean has(String name) {
        return given.containsKey(name);
    }

    /** All values of a repeatable option, in order. */
    List<String> all(String name) {
        return given.getOrDefault(name, List.of());
    }

    /** The value of an option that may be given once. */
    String text(String name, String otherwise) throws UsageError {
        List<String> values = all(name);
        if (values.size() > 1) {
            throw new UsageError("--" + name + " is given twice");
        }
        return values.isEmpty() ? otherwise : values.get(0);
    }

    long number(String name, long otherwise, long min, long max) throws UsageError {
        String text = text(name, null);
        return text == null ? otherwise : number("--" + name, text, min, max);
    }

    /** A value out of a few. */
    String choice(String name, String otherwise, List<String> choices) throws UsageError {
        String text = text(name, otherwise);
        if (text != null && !choices.contains(text)) {
            throw new UsageError("--" + name + " " + text + " is not one of " + String.join(", ", choices));
        }
        return text;
    }

    static long number(String what, String text, long min, long max) throws UsageError {
        try {
            long value = Long.parseLong(text);
            if (value >= min && value <= max) {
                return value;
            }
        } catch (NumberFormatException e) {
            // told below
        }
        throw new UsageError(what + ": " + text + " is no number from " + min + " to " + max);
    }

    /** Host and port of `HOST:PORT`. */
    static String[] hostAndPort(String what, String text) throws UsageError {
        int colon = text.lastIndexOf(':');
        if (colon <= 0) {
            throw new UsageError(what + ": " + text + " is not HOST:PORT");
        }
        String port = text.substring(colon + 1);
        number(what + " port", port, 1, 65535);
        return new String[] {text.substring(0, colon), port};
    }
}
