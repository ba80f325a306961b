package tickcast.interop;

import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.FieldEntry;
import com.refinitiv.ema.access.FieldList;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * One item of a provider of made-up data. What it holds follows from its name, the seed and the number of its
 * updates alone, so that whoever knows these can say what its image must be. README.md, "Made-up data".
 */
final class ServedItem {
    static final int SLOT_COUNT = 8;
    private static final int SLOTS_AT_FIRST = 4;
    private static final long BASE_MIN = 10_000;
    private static final long BASE_RANGE = 10_000;

    final int domain;
    final String name;
    /** Price at first, in hundredths. */
    final long base;
    /** Updates since the beginning, the sequence number too. */
    private long updateCount;
    /** Of a map, what lies in each slot; 0: nothing. */
    private final long[] sizes = new long[SLOT_COUNT];
    /** Reals that a client posted, mantissa and hint, and that no update has changed since. */
    private final Map<Integer, long[]> posted = new LinkedHashMap<>();

    /** What an update does to a slot of a map. */
    enum Action { ADD, UPDATE, DELETE }

    ServedItem(int domain, String name, long seed) {
        this.domain = domain;
        this.name = name;
        base = BASE_MIN + (hash(name) ^ seed & 0xffff_ffffL) % BASE_RANGE;
        for (int slot = 0; slot < SLOTS_AT_FIRST; slot++) {
            sizes[slot] = 100L * (slot + 1);
        }
    }

    long updateCount() {
        return updateCount;
    }

    /** Makes the next update. */
    Action advance() {
        updateCount++;
        int slot = changedSlot();
        Action action = sizes[slot] == 0 ? Action.ADD : updateCount % 3 == 0 ? Action.DELETE : Action.UPDATE;
        sizes[slot] = action == Action.DELETE ? 0 : updateCount;
        return action;
    }

    /** Of the last update. */
    int changedSlot() {
        return (int) ((updateCount - 1) % SLOT_COUNT);
    }

    /** 0: there is none. */
    long size(int slot) {
        return sizes[slot];
    }

    /** The bid moves with the updates of odd numbers. */
    long bid() {
        return base + lastOdd();
    }

    /** The ask moves with the updates of even numbers. */
    long ask() {
        return base + 4 + lastEven();
    }

    long lastOdd() {
        return updateCount % 2 == 1 ? updateCount : Math.max(updateCount - 1, 0);
    }

    long lastEven() {
        return updateCount - updateCount % 2;
    }

    /** Takes the reals of a post; counts as an update. */
    Map<Integer, long[]> post(FieldList fields) {
        updateCount++;
        Map<Integer, long[]> values = new LinkedHashMap<>();
        for (FieldEntry field : fields) {
            if (field.loadType() == DataTypes.REAL) {
                values.put(field.fieldId(),
                        new long[] {field.real().mantissa(), field.real().magnitudeType()});
            }
        }
        posted.putAll(values);
        return values;
    }

    /** Mantissa and hint of a field: what was posted, else this. */
    long[] value(int field, long mantissa, int hint) {
        return posted.getOrDefault(field, new long[] {mantissa, hint});
    }

    /** An update changes the field: what was posted is over. */
    void forgetPosted(int field) {
        posted.remove(field);
    }

    /** FNV-1a of 32 bits over the UTF-8 of the name. */
    private static long hash(String name) {
        int hash = 0x811c9dc5;
        for (byte b : name.getBytes(StandardCharsets.UTF_8)) {
            hash = (hash ^ b & 0xff) * 0x01000193;
        }
        return hash & 0xffff_ffffL;
    }
}
