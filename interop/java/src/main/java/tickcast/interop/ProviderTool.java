package tickcast.interop;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.access.OmmIProviderConfig.OperationModel;
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
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * An interactive provider that does what its standard input says, a command a line: a peer to test consumers.
 *
 * <p>It writes a JSON line for each command done and for each request that came. README.md has the commands.
 */
final class ProviderTool implements OmmProviderClient {
    static final Map<String, Arguments.Kind> OPTIONS = Map.of(
            "port", Arguments.Kind.VALUE, "service", Arguments.Kind.VALUE, "service-id", Arguments.Kind.VALUE,
            "field-dictionary", Arguments.Kind.VALUE, "enum-dictionary", Arguments.Kind.VALUE,
            "dictionary-part-bytes", Arguments.Kind.VALUE);
    private static final long DISPATCH_US = 2_000;
    /** In the order of their numbers, from 1 and from 0. */
    private static final List<String> STREAM_STATES =
            List.of("Open", "NonStreaming", "ClosedRecover", "Closed", "Redirected");
    private static final List<String> DATA_STATES = List.of("NoChange", "Ok", "Suspect");
    private static final String LISTEN = "listen";
    private static final String END = "end";

    private final BlockingQueue<String> commands = new LinkedBlockingQueue<>();
    private final com.refinitiv.ema.access.Map settings;
    private final String port;
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
        port = Long.toString(a.number("port", 14002, 1, 65535));
        service = a.text("service", "TEST");
        int serviceId = (int) a.number("service-id", 10, 2, 65535);
        String fieldFile = a.text("field-dictionary", null);
        String enumFile = a.text("enum-dictionary", null);
        if (fieldFile == null || enumFile == null) {
            throw new UsageError("--field-dictionary and --enum-dictionary are needed");
        }
        settings = EmaSettings.provider(port, service, serviceId, fieldFile, enumFile,
                a.number("dictionary-part-bytes", 65_536, 512, 65_536));
    }

    int run() {
        try {
            Thread reader = new Thread(this::readCommands, "commands");
            reader.setDaemon(true);
            reader.start();
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
        provider = EmaFactory.createOmmProvider(EmaFactory.createOmmIProviderConfig().config(settings)
                .providerName(EmaSettings.PROVIDER).operationModel(OperationModel.USER_DISPATCH), this);
        Json.line("ready", "port", port, "service", service);
    }

    private void readCommands() {
        InputStreamReader utf8 = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        try (BufferedReader input = new BufferedReader(utf8)) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                commands.add(line);
            }
        } catch (IOException e) {
            System.err.println("commands: " + e);
        }
        commands.add(END);
    }

    /** Whether to go on. */
    private boolean execute(String line) {
        List<String> words = new ArrayList<>(Arrays.asList(line.trim().split(" +")));
        String verb = words.remove(0);
        if (verb.equals(END)) {
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

    /** STREAM DATA CODE and text: `Open Suspect 11 gap`. */
    private void status(String item, List<String> words) throws UsageError {
        int stream = STREAM_STATES.indexOf(words.get(0)) + 1;
        int data = DATA_STATES.indexOf(words.get(1));
        if (stream == 0 || data < 0) {
            throw new UsageError("state " + words.get(0) + " " + words.get(1) + " is unknown");
        }
        String text = String.join(" ", words.subList(3, words.size()));
        StatusMsg m = EmaFactory.createStatusMsg().domainType(domain(item)).name(name(item))
                .serviceName(service).state(stream, data, Integer.parseInt(words.get(2)), text);
        for (long handle : handles(item)) {
            provider.submit(m, handle);
        }
        if (stream >= StreamState.CLOSED_RECOVER) {
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
