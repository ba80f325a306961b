package tickcast.interop;

import com.refinitiv.ema.access.ComplexType;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldList;
import com.refinitiv.ema.access.FilterEntry.FilterAction;
import com.refinitiv.ema.access.FilterList;
import com.refinitiv.ema.access.MapEntry.MapAction;
import com.refinitiv.ema.access.Series;
import com.refinitiv.ema.access.Vector;
import com.refinitiv.ema.access.VectorEntry.VectorAction;
import com.refinitiv.ema.rdm.DataDictionary;
import com.refinitiv.ema.rdm.DictionaryEntry;
import com.refinitiv.ema.rdm.EmaRdm;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;

/** Images and updates of made-up items in the containers of their domains. README.md, "Made-up data". */
final class Payloads {
    /** Custom domains with a container each; other custom domains have field lists. */
    static final int ELEMENTS = 128;
    static final int VECTOR = 129;
    static final int SERIES = 130;
    static final int OPAQUE = 131;
    static final int XML = 132;
    static final int FILTERS = 133;

    private static final int HUNDREDTHS = 12;
    private static final int WHOLE = 14;
    private static final int NAME = 3;
    private static final int CURRENCY = 15;
    private static final int DOLLAR = 840;
    private static final int BID = 22;
    private static final int ASK = 25;
    private static final int BID_SIZE = 30;
    private static final int ASK_SIZE = 31;
    private static final int VOLUME = 32;
    private static final int MOVES = 77;
    private static final int ORDER_PRICE = 3427;
    private static final int ORDER_SIDE = 3428;
    private static final int ORDER_SIZE = 3429;
    private static final int SIZE_AT_PRICE = 4356;

    private final Map<Integer, String> fieldNames = new HashMap<>();
    /** Entries of each map besides its slots, which never change. */
    private final int stillEntryCount;

    Payloads(String fieldFile, int stillEntryCount) {
        this.stillEntryCount = stillEntryCount;
        DataDictionary dictionary = EmaFactory.createDataDictionary();
        dictionary.loadFieldDictionary(fieldFile);
        for (DictionaryEntry entry : dictionary.entries()) {
            fieldNames.put(entry.fid(), entry.acronym());
        }
    }

    /** Whether images of this domain can come in several parts. */
    static boolean hasParts(int domain) {
        return isMap(domain) || isFieldList(domain);
    }

    private static boolean isMap(int domain) {
        return domain >= EmaRdm.MMT_MARKET_BY_ORDER && domain <= EmaRdm.MMT_SYMBOL_LIST;
    }

    private static boolean isFieldList(int domain) {
        return !isMap(domain) && (domain < ELEMENTS || domain > FILTERS);
    }

    /** @param part from 0; a part holds each `partCount`th entry */
    ComplexType image(ServedItem item, View view, int part, int partCount) {
        if (isMap(item.domain)) {
            return mapImage(item, view, part, partCount);
        }
        if (isFieldList(item.domain)) {
            return new Fields(view, part, partCount).image(item);
        }
        return custom(item, true);
    }

    /** The update that the item has just made. */
    ComplexType update(ServedItem item, ServedItem.Action action, View view) {
        if (isMap(item.domain)) {
            com.refinitiv.ema.access.Map map = EmaFactory.createMap();
            int code = action == ServedItem.Action.ADD ? MapAction.ADD
                    : action == ServedItem.Action.UPDATE ? MapAction.UPDATE : MapAction.DELETE;
            add(map, item, item.changedSlot(), code, view);
            return map;
        }
        return isFieldList(item.domain) ? new Fields(view, 0, 1).update(item) : custom(item, false);
    }

    /** An update of what a client posted. */
    FieldList posted(Map<Integer, long[]> values, View view) {
        Fields fields = new Fields(view, 0, 1);
        values.forEach((field, value) -> fields.real(field, value[0], (int) value[1]));
        return fields.list;
    }

    /** A field list in the making: only what the view has, only this part. */
    private final class Fields {
        final FieldList list = EmaFactory.createFieldList();
        private final View view;
        private final int part;
        private final int partCount;
        private int seenCount;

        Fields(View view, int part, int partCount) {
            this.view = view;
            this.part = part;
            this.partCount = partCount;
        }

        FieldList image(ServedItem item) {
            if (has(NAME)) {
                list.add(EmaFactory.createFieldEntry().rmtes(NAME, bytes(item.name)));
            }
            enumeration(CURRENCY, DOLLAR);
            real(item, BID, item.bid(), HUNDREDTHS);
            real(item, ASK, item.ask(), HUNDREDTHS);
            real(item, BID_SIZE, 10 + item.lastOdd() % 100, WHOLE);
            real(item, ASK_SIZE, 20 + item.lastEven() % 100, WHOLE);
            real(item, VOLUME, item.updateCount(), WHOLE);
            real(item, MOVES, item.updateCount(), WHOLE);
            return list;
        }

        FieldList update(ServedItem item) {
            boolean odd = item.updateCount() % 2 == 1;
            changed(item, odd ? BID : ASK, odd ? item.bid() : item.ask(), HUNDREDTHS);
            changed(item, odd ? BID_SIZE : ASK_SIZE,
                    odd ? 10 + item.lastOdd() % 100 : 20 + item.lastEven() % 100, WHOLE);
            changed(item, VOLUME, item.updateCount(), WHOLE);
            changed(item, MOVES, item.updateCount(), WHOLE);
            return list;
        }

        void enumeration(int field, int value) {
            if (has(field)) {
                list.add(EmaFactory.createFieldEntry().enumValue(field, value));
            }
        }

        void real(int field, long mantissa, int hint) {
            if (has(field)) {
                list.add(EmaFactory.createFieldEntry().real(field, mantissa, hint));
            }
        }

        private void real(ServedItem item, int field, long mantissa, int hint) {
            long[] value = item.value(field, mantissa, hint);
            real(field, value[0], (int) value[1]);
        }

        private void changed(ServedItem item, int field, long mantissa, int hint) {
            item.forgetPosted(field);
            real(field, mantissa, hint);
        }

        private boolean has(int field) {
            boolean isOfPart = seenCount++ % partCount == part;
            return isOfPart && (view == null || view.holds(field, fieldNames.get(field)));
        }
    }

    private ComplexType mapImage(ServedItem item, View view, int part, int partCount) {
        com.refinitiv.ema.access.Map map = EmaFactory.createMap();
        if (part == 0 && item.domain != EmaRdm.MMT_SYMBOL_LIST) {
            Fields summary = new Fields(view, 0, 1);
            summary.enumeration(CURRENCY, DOLLAR);
            map.summaryData(summary.list);
        }
        map.totalCountHint(ServedItem.SLOT_COUNT + stillEntryCount);
        for (int slot = 0; slot < ServedItem.SLOT_COUNT + stillEntryCount; slot++) {
            if (slot % partCount == part && (slot >= ServedItem.SLOT_COUNT || item.size(slot) > 0)) {
                add(map, item, slot, MapAction.ADD, view);
            }
        }
        return map;
    }

    private void add(com.refinitiv.ema.access.Map map, ServedItem item, int slot, int action, View view) {
        // A symbol list has names and nothing besides.
        ByteBuffer key = bytes(String.format("%s%05d", keyHead(item.domain), slot));
        if (action == MapAction.DELETE || item.domain == EmaRdm.MMT_SYMBOL_LIST) {
            map.add(EmaFactory.createMapEntry().keyBuffer(key, action));
        } else {
            map.add(EmaFactory.createMapEntry().keyBuffer(key, action, entry(item, slot, action, view)));
        }
    }

    private static String keyHead(int domain) {
        switch (domain) {
            case EmaRdm.MMT_MARKET_BY_ORDER:
                return "ORD";
            case EmaRdm.MMT_MARKET_BY_PRICE:
                return "PRC";
            case EmaRdm.MMT_MARKET_MAKER:
                return "MM";
            default:
                return "SYM";
        }
    }

    private FieldList entry(ServedItem item, int slot, int action, View view) {
        Fields fields = new Fields(view, 0, 1);
        long size = slot < ServedItem.SLOT_COUNT ? item.size(slot) : slot;
        boolean isNew = action == MapAction.ADD;
        if (item.domain == EmaRdm.MMT_MARKET_MAKER) {
            if (isNew) {
                fields.real(BID, item.base + slot, HUNDREDTHS);
                fields.real(ASK, item.base + slot + 4, HUNDREDTHS);
            }
            fields.real(BID_SIZE, size, WHOLE);
            return fields.list;
        }
        if (isNew) {
            fields.real(ORDER_PRICE, item.base + slot, HUNDREDTHS);
            fields.enumeration(ORDER_SIDE, slot % 2 + 1);
        }
        fields.real(item.domain == EmaRdm.MMT_MARKET_BY_PRICE ? SIZE_AT_PRICE : ORDER_SIZE, size, WHOLE);
        return fields.list;
    }

    private ComplexType custom(ServedItem item, boolean isImage) {
        long number = item.updateCount();
        switch (item.domain) {
            case ELEMENTS:
                return elements(item, isImage);
            case VECTOR:
                Vector vector = EmaFactory.createVector();
                for (int slot = 0; slot < (isImage ? 3 : 1); slot++) {
                    vector.add(EmaFactory.createVectorEntry().elementList(isImage ? slot : number % 3,
                            VectorAction.SET, elements(item, false)));
                }
                return vector;
            case SERIES:
                Series series = EmaFactory.createSeries();
                for (int row = 0; row < (isImage ? 3 : 1); row++) {
                    series.add(EmaFactory.createSeriesEntry().elementList(elements(item, false)));
                }
                return series;
            case OPAQUE:
                return EmaFactory.createOmmOpaque().buffer(bytes("\u0001\u0002 " + item.name + " " + number));
            case XML:
                return EmaFactory.createOmmXml()
                        .string("<item name=\"" + item.name + "\" n=\"" + number + "\"/>");
            default:
                FilterList filters = EmaFactory.createFilterList();
                filters.add(EmaFactory.createFilterEntry().elementList(1,
                        isImage ? FilterAction.SET : FilterAction.UPDATE, elements(item, isImage)));
                return filters;
        }
    }

    private static ElementList elements(ServedItem item, boolean isImage) {
        ElementList list = EmaFactory.createElementList();
        if (isImage) {
            list.add(EmaFactory.createElementEntry().ascii("Name", item.name));
            list.add(EmaFactory.createElementEntry().uintValue("Base", item.base));
        }
        list.add(EmaFactory.createElementEntry().uintValue("N", item.updateCount()));
        return list;
    }

    private static ByteBuffer bytes(String text) {
        return ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
    }
}
