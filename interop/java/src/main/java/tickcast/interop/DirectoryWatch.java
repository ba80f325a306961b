package tickcast.interop;

import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.FilterEntry;
import com.refinitiv.ema.access.FilterEntry.FilterAction;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.MapEntry.MapAction;
import com.refinitiv.ema.access.OmmConsumerEvent;
import com.refinitiv.ema.access.Payload;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** The source directory: each service with its filter entries, kept up to date. */
final class DirectoryWatch extends Watch {
    static final long FILTERS = EmaRdm.SERVICE_INFO_FILTER | EmaRdm.SERVICE_STATE_FILTER
            | EmaRdm.SERVICE_GROUP_FILTER | EmaRdm.SERVICE_LOAD_FILTER | EmaRdm.SERVICE_LINK_FILTER;
    private static final String[] FILTER_NAMES = {"info", "state", "group", "load", "data", "link"};
    private static final int PRINTED_MAX = 50;
    private static final int NAMES_MAX = 10_000;

    private final Map<Long, Map<String, Map<String, Object>>> services = new TreeMap<>();
    private final Set<String> shown = new HashSet<>();
    private long messageCount;

    @Override
    public void onRefreshMsg(RefreshMsg m, OmmConsumerEvent event) {
        services.clear();
        merge(m.payload());
        print("refresh", m.state().toString());
    }

    @Override
    public void onUpdateMsg(UpdateMsg m, OmmConsumerEvent event) {
        merge(m.payload());
        print("update", null);
    }

    @Override
    public void onStatusMsg(StatusMsg m, OmmConsumerEvent event) {
        print("status", m.hasState() ? m.state().toString() : null);
    }

    /** The service that the consumer asks for as it is now, null if the directory has none. */
    Map<String, Object> service(ConsumerOptions options) {
        for (Map.Entry<Long, Map<String, Map<String, Object>>> service : services.entrySet()) {
            boolean isIt = options.service == null ? service.getKey() == options.serviceId
                    : options.service.equals(name(service.getValue()));
            if (isIt) {
                return json(service.getKey(), service.getValue());
            }
        }
        return null;
    }

    /** Whether the directory had the service that the consumer asks for at any time. */
    boolean hasShown(ConsumerOptions options) {
        return shown.contains(options.service == null ? key(options.serviceId) : options.service);
    }

    int serviceCount() {
        return services.size();
    }

    private void merge(Payload payload) {
        messageCount++;
        if (payload.dataType() != DataTypes.MAP) {
            return;
        }
        for (MapEntry entry : payload.map()) {
            long id = entry.key().uintValue();
            if (entry.action() == MapAction.DELETE) {
                services.remove(id);
                continue;
            }
            if (entry.action() == MapAction.ADD) {
                services.put(id, new LinkedHashMap<>());
            }
            if (entry.loadType() == DataTypes.FILTER_LIST) {
                Map<String, Map<String, Object>> filters =
                        services.computeIfAbsent(id, i -> new LinkedHashMap<>());
                entry.filterList().forEach(filter -> mergeFilter(filters, filter));
                note(id, filters);
            }
        }
    }

    private void note(long id, Map<String, Map<String, Object>> filters) {
        if (shown.size() < NAMES_MAX) {
            shown.add(name(filters));
            shown.add(key(id));
        }
    }

    private static String key(long id) {
        return "#" + id;
    }

    private static String name(Map<String, Map<String, Object>> filters) {
        return String.valueOf(filters.getOrDefault("info", Map.of()).get("Name"));
    }

    private static void mergeFilter(Map<String, Map<String, Object>> filters, FilterEntry filter) {
        int id = filter.filterId();
        String name = id >= 1 && id <= FILTER_NAMES.length ? FILTER_NAMES[id - 1] : "filter " + id;
        if (filter.action() != FilterAction.UPDATE) {
            filters.remove(name);
        }
        if (filter.action() != FilterAction.CLEAR && filter.loadType() == DataTypes.ELEMENT_LIST) {
            filters.computeIfAbsent(name, n -> new LinkedHashMap<>())
                    .putAll(Elements.json(filter.elementList()));
        }
    }

    private void print(String what, String state) {
        Map<String, Object> printed = new LinkedHashMap<>();
        services.forEach((id, filters) -> {
            if (printed.size() < PRINTED_MAX) {
                printed.put(id.toString(), json(id, filters));
            }
        });
        Json.line("directory", "message", what, "state", state, "service_count", services.size(),
                "services", printed, "messages", messageCount);
    }

    private static Map<String, Object> json(long id, Map<String, Map<String, Object>> filters) {
        Map<String, Object> json = Json.object("id", id);
        json.putAll(filters);
        return json;
    }
}
