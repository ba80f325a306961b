package tickcast.interop;

import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** What the key of an item has besides service and name. */
final class KeyParts {
    static final List<String> OPTIONS = List.of("name-type", "filter", "identifier", "attrib");
    private static final long ABSENT = Long.MIN_VALUE;

    private final long nameType;
    private final long filter;
    private final long identifier;
    /** NAME=VALUE, null: none. */
    private final String attribute;

    KeyParts(Arguments a) throws UsageError {
        nameType = a.has("name-type") ? a.number("name-type", 1, 0, 255) : ABSENT;
        filter = a.has("filter") ? a.number("filter", 0, 0, 0xffff_ffffL) : ABSENT;
        identifier = a.has("identifier")
                ? a.number("identifier", 0, Integer.MIN_VALUE, Integer.MAX_VALUE) : ABSENT;
        attribute = a.text("attrib", null);
        if (attribute != null && attribute.indexOf('=') <= 0) {
            throw new UsageError("--attrib " + attribute + " is not NAME=VALUE");
        }
    }

    ReqMsg addTo(ReqMsg m) {
        if (nameType != ABSENT) {
            m.nameType((int) nameType);
        }
        if (filter != ABSENT) {
            m.filter(filter);
        }
        if (identifier != ABSENT) {
            m.id((int) identifier);
        }
        if (attribute != null) {
            int equals = attribute.indexOf('=');
            ElementList attributes = EmaFactory.createElementList();
            attributes.add(EmaFactory.createElementEntry()
                    .ascii(attribute.substring(0, equals), attribute.substring(equals + 1)));
            m.attrib(attributes);
        }
        return m;
    }

    /** Those that a message has. A name type of a RIC means the same as none, and JSON always has it. */
    static Map<String, Object> of(Msg m) {
        Map<String, Object> parts = new LinkedHashMap<>();
        if (m.hasNameType() && m.nameType() != EmaRdm.INSTRUMENT_NAME_RIC) {
            parts.put("name_type", m.nameType());
        }
        if (m.hasFilter()) {
            parts.put("filter", m.filter());
        }
        if (m.hasId()) {
            parts.put("identifier", m.id());
        }
        if (m.attrib().dataType() == DataTypes.ELEMENT_LIST) {
            parts.put("attributes", Elements.json(m.attrib().elementList()));
        }
        return parts;
    }
}
