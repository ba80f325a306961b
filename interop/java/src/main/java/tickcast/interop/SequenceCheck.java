package tickcast.interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Whether the sequence numbers of one item's updates go up by one.
 *
 * <p>A refresh says where its image stands, so the next update must carry its number plus one. Numbers are 32
 * bits and wrap. A refresh with a number lower than that of the last update is counted, not judged: after a
 * reconnect the other server may count differently.
 */
final class SequenceCheck {
    private static final long MODULUS = 1L << 32;
    private static final int EXAMPLES_MAX = 5;

    private long last = -1;
    private long gapCount;
    private long missingCount;
    private long duplicateCount;
    private long backwardsCount;
    private long unnumberedCount;
    private long refreshBackwardsCount;
    private final List<String> examples = new ArrayList<>();

    /** @param number -1 if the message has none */
    void onRefresh(long number) {
        if (number >= 0 && last >= 0 && distance(last, number) >= MODULUS / 2) {
            refreshBackwardsCount++;
        }
        last = number;
    }

    /** @param number -1 if the message has none */
    void onUpdate(long number) {
        if (number < 0) {
            unnumberedCount++;
            return;
        }
        if (last >= 0) {
            judge(number);
        }
        last = number;
    }

    /** Of the last message, -1 if it had none or none has come. */
    long last() {
        return last;
    }

    boolean isGood() {
        return gapCount + duplicateCount + backwardsCount + unnumberedCount == 0;
    }

    Map<String, Object> counts() {
        return Json.object("last", last, "gaps", gapCount, "missing", missingCount,
                "duplicates", duplicateCount, "backwards", backwardsCount, "unnumbered", unnumberedCount,
                "refreshes_backwards", refreshBackwardsCount, "examples", examples);
    }

    private void judge(long number) {
        long distance = distance(last, number);
        if (distance == 1) {
            return;
        }
        if (distance == 0) {
            duplicateCount++;
        } else if (distance < MODULUS / 2) {
            gapCount++;
            missingCount += distance - 1;
        } else {
            backwardsCount++;
        }
        if (examples.size() < EXAMPLES_MAX) {
            examples.add(last + " then " + number);
        }
    }

    private static long distance(long from, long to) {
        return Math.floorMod(to - from, MODULUS);
    }
}
