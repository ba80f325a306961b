package tickcast.interop;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FilterEntry.FilterAction;
import com.refinitiv.ema.access.FilterList;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry.MapAction;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.nio.ByteBuffer;
import java.util.List;

/** Commands that change the directory: `service up|down [STATE]`, `accepting 0|1`, `load ...`, `group STATE`. */
final class ServiceCommands {
    private final ServiceOptions service;
    private final OmmProvider provider;

    ServiceCommands(ServiceOptions service, OmmProvider provider) {
        this.service = service;
        this.provider = provider;
    }

    /** Whether the command was one of these. */
    boolean execute(String verb, List<String> words) throws UsageError {
        switch (verb) {
            case "service":
                boolean isUp = words.get(0).equals("up");
                if (!isUp && !words.get(0).equals("down")) {
                    throw new UsageError("service up or service down");
                }
                state(isUp ? 1 : 0, isUp ? 1 : 0, words.subList(1, words.size()));
                return true;
            case "accepting":
                state(1, Arguments.number("accepting", words.get(0), 0, 1), List.of());
                return true;
            case "load":
                load(words);
                return true;
            case "group":
                group(new Commands.State(words));
                return true;
            default:
                return false;
        }
    }

    /** @param status the state of all items from now on, empty: each keeps its own */
    private void state(long isUp, long isAccepting, List<String> status) throws UsageError {
        ElementList state = EmaFactory.createElementList();
        number(state, "ServiceState", isUp);
        number(state, "AcceptingRequests", isAccepting);
        if (!status.isEmpty()) {
            Commands.State of = new Commands.State(status);
            state.add(EmaFactory.createElementEntry().state("Status", of.stream, of.data, of.code, of.text));
        }
        submit(EmaRdm.SERVICE_STATE_ID, EmaRdm.SERVICE_STATE_FILTER, FilterAction.UPDATE, state);
    }

    /** OPEN-LIMIT OPEN-WINDOW LOAD-FACTOR */
    private void load(List<String> words) throws UsageError {
        ElementList load = EmaFactory.createElementList();
        number(load, "OpenLimit", Arguments.number("open limit", words.get(0), 0, 1_000_000_000));
        number(load, "OpenWindow", Arguments.number("open window", words.get(1), 0, 1_000_000_000));
        number(load, "LoadFactor", Arguments.number("load factor", words.get(2), 0, 65_535));
        submit(EmaRdm.SERVICE_LOAD_ID, EmaRdm.SERVICE_LOAD_FILTER, FilterAction.SET, load);
    }

    /** The state of the one group that all items are in. */
    private void group(Commands.State state) {
        ElementList group = EmaFactory.createElementList();
        group.add(EmaFactory.createElementEntry().buffer("Group", ByteBuffer.wrap(new byte[] {0, 1})));
        group.add(EmaFactory.createElementEntry()
                .state("Status", state.stream, state.data, state.code, state.text));
        submit(EmaRdm.SERVICE_GROUP_ID, EmaRdm.SERVICE_GROUP_FILTER, FilterAction.SET, group);
    }

    private static void number(ElementList list, String name, long value) {
        list.add(EmaFactory.createElementEntry().uintValue(name, value));
    }

    private void submit(int filterId, int filter, int action, ElementList content) {
        FilterList filters = EmaFactory.createFilterList();
        filters.add(EmaFactory.createFilterEntry().elementList(filterId, action, content));
        Map services = EmaFactory.createMap();
        services.add(EmaFactory.createMapEntry().keyUInt(service.id, MapAction.UPDATE, filters));
        UpdateMsg m = EmaFactory.createUpdateMsg().domainType(EmaRdm.MMT_DIRECTORY).filter(filter)
                .payload(services);
        // 0: to all clients that watch the directory.
        provider.submit(m, 0);
    }
}
