package tickcast.interop;

import com.refinitiv.ema.access.OmmState;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;

/** The states of one stream in order. Equal ones in a row count as one; old ones fall out of a long list. */
final class StateLog {
    private static final int KEPT_MAX = 64;

    private final Deque<Map<String, Object>> kept = new ArrayDeque<>();
    private long forgottenCount;
    private long changeCount;
    private Map<String, Object> last;
    private String stream = "";
    private String data = "";
    private final List<String> expected;
    private int metCount;

    /**
     * @param expected patterns that must be met one after the other, with any states between: DATA,
     *     STREAM/DATA or STREAM/DATA/CODE, where * is anything
     */
    StateLog(List<String> expected) {
        this.expected = expected;
    }

    void add(OmmState state) {
        String streamNow = streamName(state.streamState());
        // "No change" leaves the data state as it was.
        boolean keepsData = state.dataState() == OmmState.DataState.NO_CHANGE;
        String dataNow = keepsData ? data : dataName(state.dataState());
        if (!streamNow.equals(stream) || !dataNow.equals(data)) {
            changeCount++;
        }
        stream = streamNow;
        data = dataNow;
        Map<String, Object> now = Json.object("stream", stream, "data", data,
                "code", state.statusCodeAsString(), "text", state.statusText());
        if (now.equals(last)) {
            return;
        }
        last = now;
        kept.add(now);
        if (kept.size() > KEPT_MAX) {
            kept.remove();
            forgottenCount++;
        }
        if (metCount < expected.size() && matches(expected.get(metCount))) {
            metCount++;
        }
    }

    boolean isClosed() {
        return stream.equals("Closed") || stream.equals("ClosedRecover") || stream.equals("Redirected");
    }

    boolean isSuspect() {
        return data.equals("Suspect");
    }

    /** Open or NonStreaming, and Ok. */
    boolean isGood() {
        return !isClosed() && data.equals("Ok");
    }

    String code() {
        return last == null ? "" : (String) last.get("code");
    }

    /** The last state; empty before the first. */
    Map<String, Object> last() {
        return last == null ? Json.object("stream", "", "data", "", "code", "", "text", "") : last;
    }

    /** The pattern still to come, null if all have been met. */
    String awaited() {
        return metCount < expected.size() ? expected.get(metCount) : null;
    }

    long changeCount() {
        return changeCount;
    }

    List<Object> kept() {
        return new ArrayList<>(kept);
    }

    long forgottenCount() {
        return forgottenCount;
    }

    @Override
    public String toString() {
        return last == null ? "(none)" : stream + "/" + data + "/" + code();
    }

    private boolean matches(String pattern) {
        String[] parts = pattern.split("/");
        String[] now = {stream, data, code()};
        if (parts.length == 1) {
            return parts[0].equalsIgnoreCase(data);
        }
        for (int i = 0; i < parts.length; i++) {
            if (!parts[i].equals("*") && !parts[i].equalsIgnoreCase(now[i])) {
                return false;
            }
        }
        return true;
    }

    private static String streamName(int state) {
        switch (state) {
            case OmmState.StreamState.OPEN:
                return "Open";
            case OmmState.StreamState.NON_STREAMING:
                return "NonStreaming";
            case OmmState.StreamState.CLOSED_RECOVER:
                return "ClosedRecover";
            case OmmState.StreamState.CLOSED:
                return "Closed";
            case OmmState.StreamState.CLOSED_REDIRECTED:
                return "Redirected";
            default:
                return "(" + state + ")";
        }
    }

    private static String dataName(int state) {
        switch (state) {
            case OmmState.DataState.OK:
                return "Ok";
            case OmmState.DataState.SUSPECT:
                return "Suspect";
            default:
                return "(" + state + ")";
        }
    }
}
