package tickcast.interop;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** What non-interactive providers published, over all their connections. */
final class SinkCounts {
    private static final int ITEMS_MAX = 100_000;

    private final Map<String, Long> byKind = new TreeMap<>();
    /** DOMAIN:NAME to how its sequence numbers went. */
    private final Map<String, SequenceCheck> sequences = new LinkedHashMap<>();
    private String undecodable;

    void add(String kind) {
        byKind.merge(kind, 1L, Long::sum);
    }

    /** The numbers of an item; of very many items those seen first. */
    SequenceCheck sequence(String item) {
        return sequences.size() < ITEMS_MAX ? sequences.computeIfAbsent(item, i -> new SequenceCheck())
                : sequences.getOrDefault(item, new SequenceCheck());
    }

    void undecodable(String what) {
        undecodable = what;
    }

    void judge(long refreshCountMin, long updateCountMin, boolean checkSequence, List<String> faults) {
        atLeast("refresh", refreshCountMin, faults);
        atLeast("update", updateCountMin, faults);
        if (undecodable != null) {
            faults.add("cannot be decoded: " + undecodable);
        }
        sequences.forEach((item, sequence) -> {
            if (checkSequence && !sequence.isGood()) {
                faults.add(item + ": sequence numbers: " + sequence.counts());
            }
        });
    }

    Map<String, Object> json() {
        Map<String, Object> json = new LinkedHashMap<>(byKind);
        json.put("items", sequences.size());
        return json;
    }

    private void atLeast(String kind, long min, List<String> faults) {
        long count = byKind.getOrDefault(kind, 0L);
        if (count < min) {
            faults.add(count + " of " + min + " messages of kind " + kind);
        }
    }
}
