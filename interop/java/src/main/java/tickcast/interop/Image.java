package tickcast.interop;

import com.refinitiv.ema.access.ComplexType;
import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.FieldEntry;
import com.refinitiv.ema.access.FieldList;
import com.refinitiv.ema.access.Key;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.MapEntry.MapAction;
import com.refinitiv.ema.access.OmmOpaque;
import com.refinitiv.ema.access.OmmXml;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;

/**
 * The last values of one item: a field list, a map of field lists with a summary, or an element list. Of
 * other containers the last one is kept as it is.
 *
 * <p>Merging is what any cache of RWF data does. An update changes only the fields it holds; a blank replaces
 * a value. Map entries: ADD replaces the entry, UPDATE merges into it, DELETE removes it.
 */
final class Image {
    private final Map<Integer, String> fieldNames;
    private final Map<Integer, Value> fields = new TreeMap<>();
    private final Map<Integer, Value> summary = new TreeMap<>();
    private final Map<String, Map<Integer, Value>> entries = new LinkedHashMap<>();
    private boolean hasEntries;

    private long addCount;
    private long updateCount;
    private long deleteCount;
    private long addOfPresentCount;
    private long updateOfAbsentCount;
    private long deleteOfAbsentCount;
    private long valueErrorCount;
    private long unknownContainerCount;
    private long outsideViewCount;
    private View view;
    private View nextView;
    /** Payload that is neither field list nor map: its type and content. */
    private Map<String, Object> other;
    private final Map<String, Object> elements = new TreeMap<>();

    /** @param fieldNames takes the name of each field that is seen */
    Image(Map<Integer, String> fieldNames) {
        this.fieldNames = fieldNames;
    }

    /**
     * @param view fields that may come, null: all
     * @param next fields that may come too, null: none
     */
    void setViews(View view, View next) {
        this.view = view;
        this.nextView = next;
    }

    View view() {
        return view;
    }

    /** Fields that no view asked for. */
    long outsideViewCount() {
        return outsideViewCount;
    }

    /** Forgets all values; counts stay. */
    void clear() {
        fields.clear();
        summary.clear();
        entries.clear();
        elements.clear();
        other = null;
    }

    /** Merges the payload of a refresh or an update. */
    void merge(int containerType, ComplexType payload) {
        switch (containerType) {
            case DataTypes.FIELD_LIST:
                mergeFields(fields, (FieldList) payload);
                break;
            case DataTypes.MAP:
                mergeMap((com.refinitiv.ema.access.Map) payload);
                break;
            case DataTypes.ELEMENT_LIST:
                elements.putAll(Elements.json((ElementList) payload));
                break;
            case DataTypes.NO_DATA:
                break;
            default:
                other = other(containerType, payload);
                unknownContainerCount += other == null ? 1 : 0;
        }
    }

    /** What is not merged but shown as it came last, null if it is of no type that is known. */
    private static Map<String, Object> other(int containerType, ComplexType payload) {
        switch (containerType) {
            case DataTypes.OPAQUE:
                return Json.object("type", "OPAQUE", "hex", Value.hexText(((OmmOpaque) payload).buffer()));
            case DataTypes.XML:
                return Json.object("type", "XML", "text", ((OmmXml) payload).string());
            case DataTypes.VECTOR:
            case DataTypes.SERIES:
            case DataTypes.FILTER_LIST:
                return Json.object("type", Value.name(containerType), "text", payload.toString());
            default:
                return null;
        }
    }

    /** UPDATE or DELETE of an entry that is not there, ADD of one that is: the sender has lost track. */
    long mapFaultCount() {
        return addOfPresentCount + updateOfAbsentCount + deleteOfAbsentCount;
    }

    /** Values and containers that could not be read. */
    long faultCount() {
        return valueErrorCount + unknownContainerCount;
    }

    /** Adds `fields`, `entries` and `summary`, `elements`, or `payload`, to the line of a final image. */
    void putInto(Map<String, Object> line) {
        if (other != null) {
            line.put("payload", other);
            return;
        }
        if (!elements.isEmpty()) {
            line.put("elements", elements);
            return;
        }
        if (!hasEntries) {
            line.put("fields", json(fields));
            return;
        }
        Map<String, Object> all = new LinkedHashMap<>();
        entries.forEach((key, entry) -> all.put(key, json(entry)));
        line.put("entries", all);
        if (!summary.isEmpty()) {
            line.put("summary", json(summary));
        }
    }

    Map<String, Object> counts() {
        Map<String, Object> counts =
                Json.object("value_errors", valueErrorCount, "unknown_containers", unknownContainerCount,
                        "outside_view", outsideViewCount);
        if (hasEntries) {
            counts.putAll(Json.object("entries", entries.size(), "adds", addCount, "updates", updateCount,
                    "deletes", deleteCount, "adds_of_present", addOfPresentCount,
                    "updates_of_absent", updateOfAbsentCount, "deletes_of_absent", deleteOfAbsentCount));
        }
        return counts;
    }

    private void mergeMap(com.refinitiv.ema.access.Map map) {
        hasEntries = true;
        if (map.summaryData().dataType() == DataTypes.FIELD_LIST) {
            mergeFields(summary, map.summaryData().fieldList());
        }
        for (MapEntry entry : map) {
            mergeEntry(key(entry.key()), entry);
        }
    }

    private void mergeEntry(String key, MapEntry entry) {
        boolean present = entries.containsKey(key);
        switch (entry.action()) {
            case MapAction.ADD:
                addCount++;
                addOfPresentCount += present ? 1 : 0;
                entries.put(key, new TreeMap<>());
                break;
            case MapAction.UPDATE:
                updateCount++;
                updateOfAbsentCount += present ? 0 : 1;
                entries.computeIfAbsent(key, k -> new TreeMap<>());
                break;
            default:
                deleteCount++;
                deleteOfAbsentCount += present ? 0 : 1;
                entries.remove(key);
                return;
        }
        if (entry.loadType() == DataTypes.FIELD_LIST) {
            mergeFields(entries.get(key), entry.fieldList());
        } else if (entry.loadType() != DataTypes.NO_DATA) {
            unknownContainerCount++;
        }
    }

    private void mergeFields(Map<Integer, Value> into, FieldList list) {
        for (FieldEntry field : list) {
            Value value = Value.of(field.load(), field.loadType() == DataTypes.ENUM && field.hasEnumDisplay()
                    ? field.enumDisplay() : null);
            valueErrorCount += value.isError() ? 1 : 0;
            outsideViewCount += isInView(field) ? 0 : 1;
            into.put(field.fieldId(), value);
            fieldNames.computeIfAbsent(field.fieldId(), id -> field.name());
        }
    }

    private boolean isInView(FieldEntry field) {
        return view == null || view.holds(field.fieldId(), field.name())
                || nextView != null && nextView.holds(field.fieldId(), field.name());
    }

    private static String key(Key key) {
        boolean isBuffer = key.dataType() == DataTypes.BUFFER;
        return isBuffer ? Value.keyText(key.buffer().buffer()) : key.data().toString();
    }

    private static Map<String, Object> json(Map<Integer, Value> fields) {
        Map<String, Object> json = new LinkedHashMap<>();
        fields.forEach((id, value) -> json.put(id.toString(), value.json()));
        return json;
    }
}
