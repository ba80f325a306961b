package tickcast.interop;

import com.refinitiv.ema.access.Data;
import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.ElementEntry;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmArrayEntry;
import com.refinitiv.ema.access.OmmInt;
import com.refinitiv.ema.access.OmmUInt;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Element lists of the administrative domains as plain JSON: {"ServiceState": 1, "Capabilities": [5, 6]}. */
final class Elements {
    private Elements() {
    }

    static Map<String, Object> json(ElementList list) {
        Map<String, Object> json = new LinkedHashMap<>();
        for (ElementEntry element : list) {
            json.put(element.name(), plain(element.load()));
        }
        return json;
    }

    private static Object plain(Data data) {
        if (data.code() == Data.DataCode.BLANK) {
            return null;
        }
        switch (data.dataType()) {
            case DataTypes.UINT:
                return ((OmmUInt) data).bigIntegerValue();
            case DataTypes.INT:
                return ((OmmInt) data).intValue();
            case DataTypes.ARRAY:
                List<Object> items = new ArrayList<>();
                for (OmmArrayEntry item : (OmmArray) data) {
                    items.add(plain(item.load()));
                }
                return items;
            default:
                return data.toString();
        }
    }
}
