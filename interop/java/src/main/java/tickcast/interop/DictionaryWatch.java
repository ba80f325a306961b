package tickcast.interop;

import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.Series;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.rdm.DataDictionary;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.Map;

/**
 * One dictionary asked for by name beside the library's own download, decoded by it to say what came.
 *
 * <p>Fields or enumerations, told by the name: RWFFld or RWFEnum.
 */
final class DictionaryWatch extends Watch {
    static final String FIELDS = "RWFFld";
    static final String ENUMS = "RWFEnum";

    final String name;
    private DataDictionary dictionary = EmaFactory.createDataDictionary();
    private int partCount;
    private boolean complete;
    private String fault;

    DictionaryWatch(String name) {
        this.name = name;
    }

    @Override
    public void onRefreshMsg(RefreshMsg m, OmmConsumerEvent event) {
        if (complete) {
            return;
        }
        partCount++;
        try {
            decode(m);
        } catch (RuntimeException e) {
            fault = "dictionary " + name + ", part " + partCount + ": " + e.getMessage();
        }
        if (m.complete()) {
            complete = true;
            Json.line("dictionary", facts(m.state()));
            dictionary = null;
        }
    }

    @Override
    public void onStatusMsg(StatusMsg m, OmmConsumerEvent event) {
        String state = m.hasState() ? m.state().toString() : "(no state)";
        Json.line("dictionary_status", "name", name, "state", state);
        if (complete) {
            return;
        }
        if (m.hasState() && m.state().streamState() >= OmmState.StreamState.CLOSED_RECOVER) {
            fault = "dictionary " + name + ": " + state;
        }
        // The parts so far belong to a connection that is gone.
        dictionary = EmaFactory.createDataDictionary();
        partCount = 0;
    }

    boolean isComplete() {
        return complete;
    }

    /** What went wrong, null if nothing. */
    String fault() {
        return fault;
    }

    private void decode(RefreshMsg m) {
        if (m.payload().dataType() != DataTypes.SERIES) {
            fault = "dictionary " + name + ": the payload is no series";
            return;
        }
        Series series = m.payload().series();
        if (name.equals(FIELDS)) {
            dictionary.decodeFieldDictionary(series, EmaRdm.DICTIONARY_VERBOSE);
        } else {
            dictionary.decodeEnumTypeDictionary(series, EmaRdm.DICTIONARY_VERBOSE);
        }
    }

    private Map<String, Object> facts(OmmState state) {
        Map<String, Object> facts = Json.object("name", name, "parts", partCount, "state", state.toString());
        if (name.equals(FIELDS)) {
            facts.putAll(Json.object("entries", dictionary.entries().size(),
                    "version", dictionary.fieldVersion(), "dictionary_id", dictionary.dictionaryId(),
                    "min_fid", dictionary.minFid(), "max_fid", dictionary.maxFid()));
        } else {
            facts.putAll(Json.object("tables", dictionary.enumTables().size(),
                    "version", dictionary.enumDisplayTemplateVersion()));
        }
        facts.putAll(Json.object("fault", fault));
        return facts;
    }
}
