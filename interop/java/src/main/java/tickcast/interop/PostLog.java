package tickcast.interop;

import com.refinitiv.ema.access.AckMsg;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Posts that wait for an answer, and how those before were answered. */
final class PostLog {
    private static final int EXAMPLES_MAX = 5;

    private final int expectedNackCode;
    private final Set<Long> unanswered = new LinkedHashSet<>();
    private long lastId;
    private long ackCount;
    private long nackCount;
    private final List<String> faults = new ArrayList<>();

    /** @param expectedNackCode the refusal that every post must get, -1: all must be accepted */
    PostLog(int expectedNackCode) {
        this.expectedNackCode = expectedNackCode;
    }

    /** The number of a post that is about to be sent. */
    long next() {
        unanswered.add(++lastId);
        return lastId;
    }

    void onAck(AckMsg m, String stream) {
        int code = m.hasNackCode() ? m.nackCode() : -1;
        String name = m.hasNackCode() ? StepOptions.nackName(code) : null;
        Json.line("ack", "stream", stream, "id", m.ackId(), "seq", m.hasSeqNum() ? m.seqNum() : null,
                "nack", name, "text", m.hasText() ? m.text() : null);
        if (m.hasNackCode()) {
            nackCount++;
        } else {
            ackCount++;
        }
        if (!unanswered.remove(m.ackId())) {
            fault("an answer to post " + m.ackId() + ", which waits for none");
        } else if (!m.hasSeqNum() || m.seqNum() != m.ackId()) {
            fault("the answer to post " + m.ackId() + " has another sequence number");
        } else if (code != expectedNackCode) {
            fault("post " + m.ackId()
                    + (code < 0 ? " was accepted" : " was refused: " + name + " " + m.text()));
        }
    }

    boolean isAnswered() {
        return unanswered.isEmpty();
    }

    List<String> faults() {
        return faults;
    }

    /** What the result line says. */
    Map<String, Object> counts() {
        return Json.object("sent", lastId, "acks", ackCount, "nacks", nackCount,
                "unanswered", unanswered.size());
    }

    private void fault(String text) {
        if (faults.size() < EXAMPLES_MAX) {
            faults.add(text);
        }
    }
}
