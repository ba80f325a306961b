package tickcast.interop;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.GenericMsg;
import com.refinitiv.ema.access.Msg;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.access.OmmNiProviderConfig;
import com.refinitiv.ema.access.OmmNiProviderConfig.OperationModel;
import com.refinitiv.ema.access.OmmProvider;
import com.refinitiv.ema.access.OmmProviderClient;
import com.refinitiv.ema.access.OmmProviderEvent;
import com.refinitiv.ema.access.OmmQos;
import com.refinitiv.ema.access.OmmState;
import com.refinitiv.ema.access.OmmState.DataState;
import com.refinitiv.ema.access.OmmState.StatusCode;
import com.refinitiv.ema.access.OmmState.StreamState;
import com.refinitiv.ema.access.PostMsg;
import com.refinitiv.ema.access.RefreshMsg;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.access.StatusMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A non-interactive provider of made-up data: connects, publishes its items, updates them, comes back. */
final class NiProviderTool implements OmmProviderClient {
    private static final long DISPATCH_US = 1_000;
    private static final long LINGER_ROUNDS = 300;
    private static final ByteBuffer GROUP = ByteBuffer.wrap(new byte[] {0, 1});

    private final Transport transport;
    private final ServiceOptions service;
    private final Payloads payloads;
    private final Commands commands = new Commands(false);
    /** DOMAIN:NAME to the item; its place in the order of the map is the library's handle. */
    private final Map<String, ServedItem> items = new LinkedHashMap<>();
    private final Pace pace;
    private final String user;
    private final long updateCountMax;
    private final long timeoutS;
    private final boolean endsWithUpdates;
    private OmmProvider provider;
    private boolean isUp;
    private long loginCount;
    private long updateCount;

    NiProviderTool(Arguments a) throws UsageError {
        transport = Transport.client(a, "localhost:14003");
        service = new ServiceOptions(a, "5,6,7,8,9,10,128,129,130,131,132,133,134");
        payloads = new Payloads(service.fieldFile, (int) a.number("still-entries", 0, 0, 90_000));
        long seed = a.number("seed", 0, 0, 0xffff_ffffL);
        for (String item : a.all("item")) {
            int colon = item.indexOf(':');
            if (colon <= 0) {
                throw new UsageError("--item " + item + " is not DOMAIN:NAME");
            }
            int domain = (int) Arguments.number("--item domain", item.substring(0, colon), 6, 255);
            items.put(item, new ServedItem(domain, item.substring(colon + 1), seed));
        }
        if (items.isEmpty()) {
            throw new UsageError("no --item");
        }
        user = a.text("user", "tickcast");
        pace = new Pace(a.number("rate", 10, 0, 1_000_000));
        updateCountMax = a.number("updates", -1, 0, Long.MAX_VALUE);
        endsWithUpdates = a.has("end-after-updates");
        timeoutS = a.number("timeout", 30, 1, 1_000_000);
    }

    static Map<String, Arguments.Kind> options() {
        Map<String, Arguments.Kind> options = Transport.clientOptions();
        options.putAll(ServiceOptions.options());
        for (String name : List.of("item", "seed", "rate", "updates", "still-entries", "user", "timeout")) {
            options.put(name, Arguments.Kind.VALUE);
        }
        options.put("end-after-updates", Arguments.Kind.FLAG);
        return options;
    }

    /** The exit status. */
    int run() {
        try {
            OmmNiProviderConfig config = EmaFactory.createOmmNiProviderConfig()
                    .config(EmaSettings.nonInteractiveProvider(transport, service,
                            TimeUnit.SECONDS.toMillis(timeoutS)))
                    .providerName(EmaSettings.PROVIDER).operationModel(OperationModel.USER_DISPATCH)
                    .username(user);
            EmaSettings.encrypt(config, transport);
            provider = EmaFactory.createOmmProvider(config);
            provider.registerClient(EmaFactory.createReqMsg().domainType(EmaRdm.MMT_LOGIN), this);
            boolean running = true;
            while (running) {
                provider.dispatch(DISPATCH_US);
                for (long due = pace.due(); isUp && due > 0; due--) {
                    items.values().stream().filter(this::hasUpdates).forEach(this::update);
                }
                String command = commands.poll();
                running = (command == null || execute(command))
                        && !(endsWithUpdates && items.values().stream().noneMatch(this::hasUpdates));
            }
            // The library closes the connection whether all has gone out or not.
            for (long i = 0; i < LINGER_ROUNDS; i++) {
                provider.dispatch(DISPATCH_US);
            }
            provider.uninitialize();
            Json.lastLine("result", "status", "OK", "logins", loginCount, "updates", updateCount);
            return 0;
        } catch (OmmException e) {
            Json.lastLine("result", "status", "FAIL", "reason", e.getMessage());
            return 1;
        }
    }

    private boolean hasUpdates(ServedItem item) {
        return updateCountMax < 0 || item.updateCount() < updateCountMax;
    }

    /** The library wants a number for each stream; the item's place will do. */
    private long handle(ServedItem item) {
        return new ArrayList<>(items.values()).indexOf(item) + 1L;
    }

    private void refresh(ServedItem item, boolean isAnew) {
        RefreshMsg m = EmaFactory.createRefreshMsg().domainType(item.domain).name(item.name)
                .serviceName(service.name).complete(true).seqNum(item.updateCount() & 0xffff_ffffL)
                .state(StreamState.OPEN, DataState.OK, StatusCode.NONE, "").itemGroup(GROUP.duplicate())
                .qos(OmmQos.Timeliness.REALTIME, OmmQos.Rate.TICK_BY_TICK)
                .payload(payloads.image(item, null, 0, 1));
        if (isAnew) {
            m.clearCache(true);
        }
        provider.submit(m, handle(item));
    }

    private void update(ServedItem item) {
        ServedItem.Action action = item.advance();
        provider.submit(EmaFactory.createUpdateMsg().domainType(item.domain).name(item.name)
                .serviceName(service.name).updateTypeNum(EmaRdm.INSTRUMENT_UPDATE_QUOTE)
                .seqNum(item.updateCount() & 0xffff_ffffL)
                .payload(payloads.update(item, action, null)), handle(item));
        updateCount++;
    }

    /** Whether to go on. */
    private boolean execute(String line) {
        List<String> words = new ArrayList<>(Arrays.asList(line.trim().split(" +")));
        String verb = words.remove(0);
        if (verb.equals(Commands.END)) {
            return false;
        }
        try {
            if (verb.equals("rate")) {
                pace.set(Arguments.number("rate", words.get(0), 0, 1_000_000));
            } else if (!new ServiceCommands(service, provider).execute(verb, words)) {
                executeOfItem(verb, words);
            }
            Json.line("done", "command", line);
        } catch (UsageError | OmmException | IndexOutOfBoundsException e) {
            Json.line("error", "command", line, "text", e.getMessage());
        }
        return true;
    }

    private void executeOfItem(String verb, List<String> words) throws UsageError {
        ServedItem item = items.get(words.get(0) + ":" + words.get(1));
        if (item == null) {
            throw new UsageError("there is no " + words.get(1) + " of domain " + words.get(0));
        }
        switch (verb) {
            case "update":
                for (long i = Arguments.number("count", words.get(2), 1, 1_000_000); i > 0; i--) {
                    update(item);
                }
                break;
            case "refresh":
                refresh(item, true);
                break;
            case "status":
                Commands.State state = new Commands.State(words.subList(2, words.size()));
                provider.submit(EmaFactory.createStatusMsg().domainType(item.domain).name(item.name)
                        .serviceName(service.name).state(state.stream, state.data, state.code, state.text),
                        handle(item));
                break;
            default:
                throw new UsageError("command " + verb + " is unknown");
        }
    }

    private void onLogin(OmmState state) {
        boolean wasUp = isUp;
        isUp = state.streamState() == StreamState.OPEN && state.dataState() == DataState.OK;
        Json.line("login", "state", state.toString(), "up", isUp);
        if (isUp && !wasUp) {
            loginCount++;
            items.values().forEach(item -> refresh(item, false));
            pace.restart();
            Json.line("published", "items", items.size());
        }
    }

    @Override
    public void onRefreshMsg(RefreshMsg m, OmmProviderEvent event) {
        if (m.domainType() == EmaRdm.MMT_LOGIN) {
            onLogin(m.state());
        }
    }

    @Override
    public void onStatusMsg(StatusMsg m, OmmProviderEvent event) {
        if (m.domainType() == EmaRdm.MMT_LOGIN && m.hasState()) {
            onLogin(m.state());
        }
    }

    @Override
    public void onGenericMsg(GenericMsg m, OmmProviderEvent event) {
        Json.line("generic", "domain", m.domainType());
    }

    @Override
    public void onPostMsg(PostMsg m, OmmProviderEvent event) {
        // the library hands posts to interactive providers only
    }

    @Override
    public void onReqMsg(ReqMsg m, OmmProviderEvent event) {
        // nobody asks a non-interactive provider
    }

    @Override
    public void onReissue(ReqMsg m, OmmProviderEvent event) {
        // nobody asks a non-interactive provider
    }

    @Override
    public void onClose(ReqMsg m, OmmProviderEvent event) {
        // nobody asks a non-interactive provider
    }

    @Override
    public void onAllMsg(Msg m, OmmProviderEvent event) {
        // each class has its own method
    }
}
