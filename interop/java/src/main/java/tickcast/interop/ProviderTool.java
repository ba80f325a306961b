package tickcast.interop;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.access.OmmIProviderConfig;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmProviderClient;
import com.refinitiv.ema.access.OmmProviderEvent;
import com.refinitiv.ema.access.OmmQos;
import com.refinitiv.ema.access.OmmState.DataState;
import com.refinitiv.ema.access.OmmState.StatusCode;
import com.refinitiv.ema.access.OmmState.StreamState;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.access.UpdateMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * An interactive provider that does what its standard input says, a command a line: a peer to test consumers.
 *
 * <p>It writes a JSON line for each command done and for each request that came. README.md has the commands.
 */
final class ProviderTool implements OmmProviderClient {
    private static final long DISPATCH_US = 2_000;
    private static final String LISTEN = "listen";

    private final Commands commands = new Commands(true);
    private final OmmIProviderConfig settings;
    private final Transport transport;
    private final String service;
    /** DOMAIN:NAME to the words that make its image. Items without an image are closed, not found. */
    private final Map<String, List<String>> images = new LinkedHashMap<>();
    private final Map<Long, Stream> streams = new LinkedHashMap<>();
    private OmmProvider provider;

    /** A stream that a client holds open. */
    private static final class Stream {
        final String item;
        final long client;

        Stream(String item, long client) {
            this.item = item;
            this.client = client;
        }
    }

    ProviderTool(Arguments a) throws UsageError {
        transport = Transport.server(a, 14002);
        ServiceOptions options = new ServiceOptions(a, "5,6,7,8");
        service = options.name;
        settings = EmaSettings.interactiveConfig(transport, options);
    }

    static Map<String, Arguments.Kind> options() {
        Map<String, Arguments.Kind> options = Transport.serverOptions();
        options.putAll(ServiceOptions.options());
        return options;
    }

    int run() {
        try {
            boolean running = true;
            while (running) {
                String command = provider == null ? commands.take() : dispatchAndPoll();
                running = command == null || execute(command);
            }
            if (provider != null) {
                provider.uninitialize();
            }
            Json.lastLine("result", "status", "OK");
            return 0;
        } catch (OmmException | InterruptedException e) {
            Json.lastLine("result", "status", "FAIL", "reason", e.getMessage());
            return 1;
        }
    }

    private String dispatchAndPoll() {
        provider.dispatch(DISPATCH_US);
        return commands.poll();
    }

    private void listen() {
        provider = EmaFactory.createOmmProvider(settings, this);
        Json.line("ready", "port", transport.port, "service", service);
    }

    /** Whether to go on. */
    private boolean execute(String line) {
        List<String> words = new ArrayList<>(Arrays.asList(line.trim().split(" +")));
        String verb = words.remove(0);
        if (verb.equals(Commands.END)) {
            return false;
        }
        if (verb.equals(LISTEN)) {
            listen();
            return true;
        }
        try {
            String item = words.remove(0) + ":" + words.remove(0);
            switch (verb) {
                case "image":
                    images.put(item, words);
                    break;
                case "refresh":
                    refresh(item, words, false, handles(item));
                    break;
                case "update":
                    update(item, words);
                    break;
                case "status":
                    status(item, words);
                    break;
                default:
                    throw new UsageError("command " + verb + " is unknown");
            }
            Json.line("done", "command", verb, "item", item);
        } catch (UsageError | OmmException | IndexOutOfBoundsException e) {
            Json.line("error", "command", line, "text", e.getMessage());
        }
        return true;
    }

    private void refresh(String item, List<String> words, boolean solicited, List<Long> handles)
            throws UsageError {
        List<String> payload = new ArrayList<>(words);
        RefreshMsg m = EmaFactory.createRefreshMsg().domainType(domain(item)).name(name(item))
                .serviceName(service).state(StreamState.OPEN, DataState.OK, StatusCode.NONE, "")
                .qos(OmmQos.Timeliness.REALTIME, OmmQos.Rate.TICK_BY_TICK)
                .solicited(solicited);
        boolean complete = true;
        for (String flag = flag(payload); flag != null; flag = flag(payload)) {
            String value = flag.substring(flag.indexOf('=') + 1);
            if (flag.equals("@partial")) {
                complete = false;
            } else if (flag.equals("@solicited")) {
                m.solicited(true);
            } else if (flag.equals("@clear")) {
                m.clearCache(true);
            } else if (flag.startsWith("@seq=")) {
                m.seqNum(Long.parseLong(value));
            } else if (flag.startsWith("@part=")) {
                m.partNum(Integer.parseInt(value));
            } else {
                throw new UsageError("flag " + flag + " is unknown");
            }
        }
        // The library cannot take back a "complete" that was set once.
        if (complete) {
            m.complete(true);
        }
        m.payload(PayloadScript.parse(payload));
        for (long handle : handles) {
            provider.submit(m, handle);
        }
    }

    private void update(String item, List<String> words) throws UsageError {
        UpdateMsg m = EmaFactory.createUpdateMsg().domainType(domain(item)).name(name(item))
                .serviceName(service).updateTypeNum(EmaRdm.INSTRUMENT_UPDATE_QUOTE);
        for (String flag = flag(words); flag != null; flag = flag(words)) {
            if (!flag.startsWith("@seq=")) {
                throw new UsageError("flag " + flag + " is unknown");
            }
            m.seqNum(Long.parseLong(flag.substring("@seq=".length())));
        }
        m.payload(PayloadScript.parse(words));
        for (long handle : handles(item)) {
            provider.submit(m, handle);
        }
    }

    private void status(String item, List<String> words) throws UsageError {
        Commands.State state = new Commands.State(words);
        StatusMsg m = EmaFactory.createStatusMsg().domainType(domain(item)).name(name(item))
                .serviceName(service).state(state.stream, state.data, state.code, state.text);
        for (long handle : handles(item)) {
            provider.submit(m, handle);
        }
        if (state.stream >= StreamState.CLOSED_RECOVER) {
            streams.values().removeIf(open -> open.item.equals(item));
        }
    }

    private List<Long> handles(String item) throws UsageError {
        List<Long> handles = new ArrayList<>();
        streams.forEach((handle, open) -> {
            if (open.item.equals(item)) {
                handles.add(handle);
            }
        });
        if (handles.isEmpty()) {
            throw new UsageError("nobody watches " + item);
        }
        return handles;
    }

    private static String flag(List<String> words) {
        return !words.isEmpty() && words.get(0).startsWith("@") ? words.remove(0) : null;
    }

    private static int domain(String item) {
        return Integer.parseInt(item.substring(0, item.indexOf(':')));
    }

    private static String name(String item) {
        return item.substring(item.indexOf(':') + 1);
    }

    @Override
    public void onReqMsg(ReqMsg m, OmmProviderEvent event) {
        if (m.domainType() == EmaRdm.MMT_LOGIN) {
            acceptLogin(m, event.handle());
            return;
        }
        String item = m.domainType() + ":" + (m.hasName() ? m.name() : "");
        List<String> image = images.get(item);
        if (image == null) {
            provider.submit(EmaFactory.createStatusMsg().domainType(m.domainType()).name(name(item))
                    .serviceName(service)
                    .state(StreamState.CLOSED, DataState.SUSPECT, StatusCode.NOT_FOUND, "no such item"),
                    event.handle());
        } else {
            if (m.interestAfterRefresh()) {
                streams.put(event.handle(), new Stream(item, event.clientHandle()));
            }
            try {
                refresh(item, image, true, List.of(event.handle()));
            } catch (UsageError e) {
                Json.line("error", "item", item, "text", e.getMessage());
            }
        }
        Json.line("request", "item", item, "streaming", m.interestAfterRefresh(), "known", image != null);
    }

    private void acceptLogin(ReqMsg m, long handle) {
        Json.line("login", "user", m.name());
        ElementList attributes = EmaFactory.createElementList();
        attributes.add(EmaFactory.createElementEntry().uintValue("SingleOpen", 1));
        attributes.add(EmaFactory.createElementEntry().uintValue("AllowSuspectData", 1));
        provider.submit(EmaFactory.createRefreshMsg().domainType(EmaRdm.MMT_LOGIN).name(m.name())
                .nameType(EmaRdm.USER_NAME).state(StreamState.OPEN, DataState.OK, StatusCode.NONE, "welcome")
                .solicited(true).complete(true).attrib(attributes), handle);
    }

    @Override
    public void onReissue(ReqMsg m, OmmProviderEvent event) {
        Json.line("reissue", "item", m.domainType() + ":" + m.name());
    }

    @Override
    public void onClose(ReqMsg m, OmmProviderEvent event) {
        if (m.domainType() == EmaRdm.MMT_LOGIN) {
            streams.values().removeIf(open -> open.client == event.clientHandle());
            Json.line("logout");
            return;
        }
        Stream closed = streams.remove(event.handle());
        Json.line("close", "domain", m.domainType(), "item", closed == null ? null : closed.item);
    }

    @Override
    public void onRefreshMsg(RefreshMsg m, OmmProviderEvent event) {
        // only of streams that a provider opens
    }

    @Override
    public void onStatusMsg(StatusMsg m, OmmProviderEvent event) {
        // only of streams that a provider opens
    }

    @Override
    public void onGenericMsg(GenericMsg m, OmmProviderEvent event) {
        // no test sends any
    }

    @Override
    public void onPostMsg(PostMsg m, OmmProviderEvent event) {
        // no test posts
    }

    @Override
    public void onAllMsg(Msg m, OmmProviderEvent event) {
        // each class has its own method
    }
}
