package tickcast.interop;

import com.refinitiv.eta.codec.Buffer;
import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.codec.CodecFactory;
import com.refinitiv.eta.codec.CodecReturnCodes;
import com.refinitiv.eta.codec.DataTypes;
import com.refinitiv.eta.codec.DecodeIterator;
import com.refinitiv.eta.codec.ElementEntry;
import com.refinitiv.eta.codec.ElementList;
import com.refinitiv.eta.codec.EncodeIterator;
import com.refinitiv.eta.codec.Enum;
import com.refinitiv.eta.codec.FieldEntry;
import com.refinitiv.eta.codec.FieldList;
import com.refinitiv.eta.codec.FilterEntry;
import com.refinitiv.eta.codec.FilterList;
import com.refinitiv.eta.codec.MapEntry;
import com.refinitiv.eta.codec.Msg;
import com.refinitiv.eta.codec.MsgClasses;
import com.refinitiv.eta.codec.Real;
import com.refinitiv.eta.codec.Series;
import com.refinitiv.eta.codec.SeriesEntry;
import com.refinitiv.eta.codec.UInt;
import com.refinitiv.eta.codec.UpdateMsg;
import com.refinitiv.eta.codec.Vector;
import com.refinitiv.eta.codec.VectorEntry;
import java.nio.ByteBuffer;

/**
 * Decodes update messages to the last value with ETA's codec, and encodes them again value by value, in objects
 * that are made once, as ETA's performance tools do.
 */
final class EtaCodec {
    private static final int ROOM_BYTES = 1 << 16;
    private static final int LEVELS = 4;

    /** What one level of nesting needs, to read and to write. */
    private static final class Level {
        final FieldList fields = CodecFactory.createFieldList();
        final FieldList fieldsOut = CodecFactory.createFieldList();
        final FieldEntry field = CodecFactory.createFieldEntry();
        final ElementList elements = CodecFactory.createElementList();
        final ElementList elementsOut = CodecFactory.createElementList();
        final ElementEntry element = CodecFactory.createElementEntry();
        final com.refinitiv.eta.codec.Map map = CodecFactory.createMap();
        final com.refinitiv.eta.codec.Map mapOut = CodecFactory.createMap();
        final MapEntry mapEntry = CodecFactory.createMapEntry();
        final MapEntry mapEntryOut = CodecFactory.createMapEntry();
        final Buffer key = CodecFactory.createBuffer();
        final Series series = CodecFactory.createSeries();
        final Series seriesOut = CodecFactory.createSeries();
        final SeriesEntry seriesEntry = CodecFactory.createSeriesEntry();
        final SeriesEntry seriesEntryOut = CodecFactory.createSeriesEntry();
        final Vector vector = CodecFactory.createVector();
        final Vector vectorOut = CodecFactory.createVector();
        final VectorEntry vectorEntry = CodecFactory.createVectorEntry();
        final VectorEntry vectorEntryOut = CodecFactory.createVectorEntry();
        final FilterList filters = CodecFactory.createFilterList();
        final FilterList filtersOut = CodecFactory.createFilterList();
        final FilterEntry filter = CodecFactory.createFilterEntry();
        final FilterEntry filterOut = CodecFactory.createFilterEntry();
    }

    private final byte[] types = new byte[1 << 16];
    private final Level[] levels = new Level[LEVELS];
    private final DecodeIterator in = CodecFactory.createDecodeIterator();
    private final EncodeIterator out = CodecFactory.createEncodeIterator();
    private final Msg msg = CodecFactory.createMsg();
    private final Msg msgOut = CodecFactory.createMsg();
    private final Buffer buffer = CodecFactory.createBuffer();
    private final Buffer bufferOut = CodecFactory.createBuffer();
    private final ByteBuffer room = ByteBuffer.allocate(ROOM_BYTES);
    private final Real real = CodecFactory.createReal();
    private final UInt unsigned = CodecFactory.createUInt();
    private final Enum enumeration = CodecFactory.createEnum();
    private final Buffer text = CodecFactory.createBuffer();
    private boolean copies;
    private long sum;

    EtaCodec() {
        for (int i = 0; i < LEVELS; i++) {
            levels[i] = new Level();
        }
    }

    /** Says of which type a field is. */
    void type(int fid, int type) {
        types[fid & 0xFFFF] = (byte) type;
    }

    /** Decodes a message; the sum of its values. */
    long decode(ByteBuffer message) {
        copies = false;
        begin(message);
        content(msg.containerType(), 0);
        return sum;
    }

    /** Decodes a message and encodes it again; the sum of its values. */
    long copy(ByteBuffer message) {
        copies = true;
        begin(message);
        room.clear();
        bufferOut.data(room);
        out.clear();
        check(out.setBufferAndRWFVersion(bufferOut, Codec.majorVersion(), Codec.minorVersion()));
        msgOut.clear();
        msgOut.msgClass(MsgClasses.UPDATE);
        msgOut.domainType(msg.domainType());
        msgOut.streamId(msg.streamId());
        msgOut.containerType(msg.containerType());
        ((UpdateMsg) msgOut).updateType(((UpdateMsg) msg).updateType());
        check(msgOut.encodeInit(out, 0));
        content(msg.containerType(), 0);
        check(msgOut.encodeComplete(out, true));
        return sum;
    }

    /** What {@link #copy} has written. */
    byte[] copied() {
        byte[] bytes = new byte[bufferOut.length()];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = room.get(i);
        }
        return bytes;
    }

    private void begin(ByteBuffer message) {
        sum = 0;
        buffer.data(message);
        in.clear();
        check(in.setBufferAndRWFVersion(buffer, Codec.majorVersion(), Codec.minorVersion()));
        check(msg.decode(in));
    }

    private static void check(int code) {
        if (code < CodecReturnCodes.SUCCESS) {
            throw new IllegalStateException(CodecReturnCodes.toString(code));
        }
    }

    /** Whether there is another entry. */
    private static boolean more(int code) {
        check(code);
        return code != CodecReturnCodes.END_OF_CONTAINER;
    }

    private void content(int type, int depth) {
        switch (type) {
            case DataTypes.FIELD_LIST:
                fieldList(levels[depth]);
                break;
            case DataTypes.ELEMENT_LIST:
                elementList(levels[depth]);
                break;
            case DataTypes.MAP:
                map(levels[depth], depth + 1);
                break;
            case DataTypes.SERIES:
                series(levels[depth], depth + 1);
                break;
            case DataTypes.VECTOR:
                vector(levels[depth], depth + 1);
                break;
            case DataTypes.FILTER_LIST:
                filterList(levels[depth], depth + 1);
                break;
            default:
                throw new IllegalStateException("container type " + type);
        }
    }

    private void fieldList(Level level) {
        check(level.fields.decode(in, null));
        if (copies) {
            level.fieldsOut.clear();
            level.fieldsOut.applyHasStandardData();
            check(level.fieldsOut.encodeInit(out, null, 0));
        }
        FieldEntry field = level.field;
        while (more(field.decode(in))) {
            int type = types[field.fieldId() & 0xFFFF];
            field.dataType(type);
            switch (type) {
                case DataTypes.REAL:
                    check(real.decode(in));
                    sum += real.toLong() + real.hint();
                    check(copies ? field.encode(out, real) : 0);
                    break;
                case DataTypes.UINT:
                    check(unsigned.decode(in));
                    sum += unsigned.toLong();
                    check(copies ? field.encode(out, unsigned) : 0);
                    break;
                case DataTypes.ENUM:
                    check(enumeration.decode(in));
                    sum += enumeration.toInt();
                    check(copies ? field.encode(out, enumeration) : 0);
                    break;
                default:
                    check(text.decode(in));
                    sum += text.length();
                    check(copies ? field.encode(out, text) : 0);
                    break;
            }
        }
        check(copies ? level.fieldsOut.encodeComplete(out, true) : 0);
    }

    private void elementList(Level level) {
        check(level.elements.decode(in, null));
        if (copies) {
            level.elementsOut.clear();
            level.elementsOut.applyHasStandardData();
            check(level.elementsOut.encodeInit(out, null, 0));
        }
        ElementEntry element = level.element;
        while (more(element.decode(in))) {
            sum += element.name().length();
            switch (element.dataType()) {
                case DataTypes.UINT:
                    check(unsigned.decode(in));
                    sum += unsigned.toLong();
                    check(copies ? element.encode(out, unsigned) : 0);
                    break;
                default:
                    check(text.decode(in));
                    sum += text.length();
                    check(copies ? element.encode(out, text) : 0);
                    break;
            }
        }
        check(copies ? level.elementsOut.encodeComplete(out, true) : 0);
    }

    private void map(Level level, int inner) {
        com.refinitiv.eta.codec.Map map = level.map;
        check(map.decode(in));
        if (copies) {
            level.mapOut.clear();
            level.mapOut.keyPrimitiveType(map.keyPrimitiveType());
            level.mapOut.containerType(map.containerType());
            check(level.mapOut.encodeInit(out, 0, 0));
        }
        while (more(level.mapEntry.decode(in, level.key))) {
            sum += level.key.length();
            if (copies) {
                level.mapEntryOut.clear();
                level.mapEntryOut.action(level.mapEntry.action());
                check(level.mapEntryOut.encodeInit(out, level.key, 0));
            }
            content(map.containerType(), inner);
            check(copies ? level.mapEntryOut.encodeComplete(out, true) : 0);
        }
        check(copies ? level.mapOut.encodeComplete(out, true) : 0);
    }

    private void series(Level level, int inner) {
        check(level.series.decode(in));
        if (copies) {
            level.seriesOut.clear();
            level.seriesOut.containerType(level.series.containerType());
            check(level.seriesOut.encodeInit(out, 0, 0));
        }
        while (more(level.seriesEntry.decode(in))) {
            if (copies) {
                level.seriesEntryOut.clear();
                check(level.seriesEntryOut.encodeInit(out, 0));
            }
            content(level.series.containerType(), inner);
            check(copies ? level.seriesEntryOut.encodeComplete(out, true) : 0);
        }
        check(copies ? level.seriesOut.encodeComplete(out, true) : 0);
    }

    private void vector(Level level, int inner) {
        check(level.vector.decode(in));
        if (copies) {
            level.vectorOut.clear();
            level.vectorOut.containerType(level.vector.containerType());
            check(level.vectorOut.encodeInit(out, 0, 0));
        }
        while (more(level.vectorEntry.decode(in))) {
            sum += level.vectorEntry.index();
            if (copies) {
                level.vectorEntryOut.clear();
                level.vectorEntryOut.action(level.vectorEntry.action());
                level.vectorEntryOut.index(level.vectorEntry.index());
                check(level.vectorEntryOut.encodeInit(out, 0));
            }
            content(level.vector.containerType(), inner);
            check(copies ? level.vectorEntryOut.encodeComplete(out, true) : 0);
        }
        check(copies ? level.vectorOut.encodeComplete(out, true) : 0);
    }

    private void filterList(Level level, int inner) {
        check(level.filters.decode(in));
        if (copies) {
            level.filtersOut.clear();
            level.filtersOut.containerType(level.filters.containerType());
            check(level.filtersOut.encodeInit(out));
        }
        while (more(level.filter.decode(in))) {
            sum += level.filter.id();
            if (copies) {
                level.filterOut.clear();
                level.filterOut.id(level.filter.id());
                level.filterOut.action(level.filter.action());
                check(level.filterOut.encodeInit(out, 0));
            }
            content(level.filters.containerType(), inner);
            check(copies ? level.filterOut.encodeComplete(out, true) : 0);
        }
        check(copies ? level.filtersOut.encodeComplete(out, true) : 0);
    }
}
