package tickcast.interop;

import com.refinitiv.ema.access.AckMsg.NackCode;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What a consumer does once all images are there, in this order. */
final class StepOptions {
    static final Map<String, Arguments.Kind> KNOWN = new LinkedHashMap<>();
    private static final List<String> NACK_CODES = List.of("NONE", "ACCESS_DENIED", "DENIED_BY_SOURCE",
            "SOURCE_DOWN", "SOURCE_UNKNOWN", "NO_RESOURCES", "NO_RESPONSE", "GATEWAY_DOWN", "RESERVED8",
            "RESERVED9", "SYMBOL_UNKNOWN", "NOT_OPEN", "INVALID_CONTENT");

    static {
        for (String name : List.of("reissue-view", "reissue-priority", "pause", "pause-all", "post",
                "post-off-stream", "post-fields", "expect-nack", "generic")) {
            KNOWN.put(name, Arguments.Kind.VALUE);
        }
        KNOWN.put("reissue", Arguments.Kind.FLAG);
    }

    boolean reissue;
    /** null: no change. */
    View reissueView;
    /** Class and count, null: no change. */
    int[] reissuePriority;
    /** Milliseconds without a message that prove the pause, -1: none. */
    long pauseMs;
    long pauseAllMs;
    int postCount;
    int postOffStreamCount;
    /** Words of {@link PayloadScript}. */
    List<String> postFields;
    /** -1: posts must be accepted. */
    int expectedNackCode;
    int genericCount;

    private StepOptions() {
    }

    static StepOptions parse(Arguments a) throws UsageError {
        StepOptions o = new StepOptions();
        o.reissueView = a.has("reissue-view") ? View.parse(a.text("reissue-view", null)) : null;
        o.reissuePriority = priority(a, "reissue-priority");
        o.reissue = a.has("reissue") || o.reissueView != null || o.reissuePriority != null;
        o.pauseMs = a.number("pause", -1, 1, 1_000_000);
        o.pauseAllMs = a.number("pause-all", -1, 1, 1_000_000);
        o.postCount = (int) a.number("post", 0, 1, 1_000_000);
        o.postOffStreamCount = (int) a.number("post-off-stream", 0, 1, 1_000_000);
        o.postFields = List.of(a.text("post-fields", "22=REAL:400100:12 25=REAL:400200:12").split(" +"));
        PayloadScript.parse(o.postFields);
        o.expectedNackCode = nackCode("--expect-nack", a.text("expect-nack", null));
        o.genericCount = (int) a.number("generic", 0, 1, 1_000_000);
        return o;
    }

    /** CLASS:COUNT, null if the option is not given. */
    static int[] priority(Arguments a, String option) throws UsageError {
        String text = a.text(option, null);
        if (text == null) {
            return null;
        }
        String[] parts = text.split(":");
        if (parts.length != 2) {
            throw new UsageError("--" + option + " " + text + " is not CLASS:COUNT");
        }
        return new int[] {(int) Arguments.number("--" + option + " class", parts[0], 1, 255),
                (int) Arguments.number("--" + option + " count", parts[1], 1, 65535)};
    }

    /** A code by its name as in the documentation of RWF, -1 for null. */
    static int nackCode(String what, String name) throws UsageError {
        if (name == null) {
            return -1;
        }
        int code = NACK_CODES.indexOf(name);
        if (code < NackCode.NONE) {
            throw new UsageError(what + " " + name + " is not one of " + String.join(", ", NACK_CODES));
        }
        return code;
    }

    static String nackName(int code) {
        return code >= 0 && code < NACK_CODES.size() ? NACK_CODES.get(code) : Integer.toString(code);
    }
}
