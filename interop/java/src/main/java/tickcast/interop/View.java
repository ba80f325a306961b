package tickcast.interop;

import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.ElementEntry;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmArrayEntry;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.LinkedHashSet;
import java.util.Set;

/** A dynamic view: fields by number, or by name. */
final class View {
    static final String NUMBERS = "-?\\d+(,-?\\d+)*";
    private static final long BY_NUMBER = 1;
    private static final long BY_NAME = 2;

    private final boolean byNumber;
    private final Set<String> fields = new LinkedHashSet<>();

    private View(boolean byNumber) {
        this.byNumber = byNumber;
    }

    /** `22,25` or `BID,ASK`. */
    static View parse(String text) throws UsageError {
        View view = new View(text.matches(NUMBERS));
        for (String field : text.split(",")) {
            if (field.isEmpty() || !view.byNumber && field.matches(NUMBERS)) {
                throw new UsageError("view " + text + ": either numbers or names, separated by commas");
            }
            view.fields.add(field);
        }
        return view;
    }

    /** The view that a request carries, null if it has none. */
    static View of(ReqMsg m) {
        if (!m.hasView() || m.payload().dataType() != DataTypes.ELEMENT_LIST) {
            return null;
        }
        long type = BY_NUMBER;
        OmmArray array = null;
        for (ElementEntry element : m.payload().elementList()) {
            String name = element.name();
            if (name.equals(EmaRdm.ENAME_VIEW_TYPE) && element.loadType() == DataTypes.UINT) {
                type = element.uintValue();
            } else if (name.equals(EmaRdm.ENAME_VIEW_DATA) && element.loadType() == DataTypes.ARRAY) {
                array = element.array();
            }
        }
        View view = new View(type != BY_NAME);
        if (array != null) {
            for (OmmArrayEntry entry : array) {
                view.fields.add(entry.load().toString());
            }
        }
        return view;
    }

    boolean holds(int number, String name) {
        return fields.contains(byNumber ? Integer.toString(number) : name);
    }

    /** Adds it to the payload of a request. */
    void addTo(ElementList payload) {
        OmmArray array = EmaFactory.createOmmArray();
        for (String field : fields) {
            array.add(byNumber ? EmaFactory.createOmmArrayEntry().intValue(Integer.parseInt(field))
                    : EmaFactory.createOmmArrayEntry().ascii(field));
        }
        payload.add(EmaFactory.createElementEntry()
                .uintValue(EmaRdm.ENAME_VIEW_TYPE, byNumber ? BY_NUMBER : BY_NAME));
        payload.add(EmaFactory.createElementEntry().array(EmaRdm.ENAME_VIEW_DATA, array));
    }

    @Override
    public String toString() {
        return String.join(",", fields);
    }
}
