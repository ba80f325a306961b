package tickcast.interop;

import com.refinitiv.ema.access.AckMsg;
import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldList;
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
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/** An interactive provider of made-up data that runs by itself: any item, any domain, at a rate. */
final class IProviderTool implements OmmProviderClient {
    private static final long DISPATCH_US = 1_000;
    private static final ByteBuffer GROUP = ByteBuffer.wrap(new byte[] {0, 1});

    private final IProviderOptions options;
    private final OmmIProviderConfig config;
    private final LoginAnswers logins;
    private final Payloads payloads;
    private final Commands commands = new Commands(false);
    private final Map<String, ServedItem> items = new LinkedHashMap<>();
    private final Map<Long, Stream> streams = new LinkedHashMap<>();
    private final Map<String, Long> counts = new TreeMap<>();
    private final Pace pace;
    private OmmProvider provider;
    private PostAnswer postAnswer;

    /** A stream that a client holds open. */
    private static final class Stream {
        final ServedItem item;
        final long handle;
        final long client;
        final boolean isPrivate;
        View view;
        boolean isPaused;

        Stream(ServedItem item, OmmProviderEvent event, ReqMsg m) {
            this.item = item;
            handle = event.handle();
            client = event.clientHandle();
            isPrivate = m.privateStream();
            view = View.of(m);
            isPaused = m.pause();
        }
    }

    IProviderTool(IProviderOptions options) throws UsageError {
        this.options = options;
        config = EmaSettings.interactiveConfig(options.transport, options.service);
        logins = new LoginAnswers(options);
        payloads = new Payloads(options.service.fieldFile, options.stillEntryCount);
        pace = new Pace(options.rate);
        postAnswer = options.postAnswer;
    }

    /** The exit status. */
    int run() {
        long startNs = System.nanoTime();
        try {
            provider = EmaFactory.createOmmProvider(config, this);
            Json.line("ready", "port", options.transport.port, "service", options.service.name);
            boolean running = true;
            while (running) {
                provider.dispatch(DISPATCH_US);
                tick();
                String command = commands.poll();
                running = (command == null || execute(command)) && (options.runForS == 0
                        || System.nanoTime() - startNs < TimeUnit.SECONDS.toNanos(options.runForS));
            }
            provider.uninitialize();
            Json.lastLine("result", "status", "OK", "counts", counts);
            return 0;
        } catch (OmmException e) {
            Json.lastLine("result", "status", "FAIL", "reason", e.getMessage(), "counts", counts);
            return 1;
        }
    }

    private void tick() {
        for (long due = pace.due(); due > 0; due--) {
            watched().forEach(this::update);
        }
    }

    private List<ServedItem> watched() {
        List<ServedItem> watched = new ArrayList<>();
        streams.values().stream().map(stream -> stream.item).distinct()
                .filter(item -> options.updateCountMax < 0 || item.updateCount() < options.updateCountMax)
                .forEach(watched::add);
        return watched;
    }

    private void update(ServedItem item) {
        ServedItem.Action action = item.advance();
        for (Stream stream : streamsOf(item)) {
            if (!stream.isPaused) {
                submit(stream, updateMsg(item).payload(payloads.update(item, action, stream.view)));
            }
        }
        if (item.updateCount() == options.closeAfterCount) {
            status(item, options.closeState);
        }
    }

    private UpdateMsg updateMsg(ServedItem item) {
        UpdateMsg m = EmaFactory.createUpdateMsg().domainType(item.domain).name(item.name)
                .serviceName(options.service.name).updateTypeNum(EmaRdm.INSTRUMENT_UPDATE_QUOTE);
        if (options.hasSequence) {
            m.seqNum(item.updateCount() & 0xffff_ffffL);
        }
        if (options.permissionData != null) {
            m.permissionData(options.permissionData.duplicate());
        }
        if (options.conflatedCount > 0) {
            m.conflated(options.conflatedCount, 1);
        }
        return m;
    }

    private void submit(Stream stream, UpdateMsg m) {
        provider.submit(m, stream.handle);
        count("updates");
    }

    private List<Stream> streamsOf(ServedItem item) {
        List<Stream> found = new ArrayList<>();
        streams.values().stream().filter(stream -> stream.item == item).forEach(found::add);
        return found;
    }

    private void refresh(Stream stream, boolean solicited) {
        int partCount = Payloads.hasParts(stream.item.domain) ? options.partCount : 1;
        for (int part = 0; part < partCount; part++) {
            RefreshMsg m = refreshMsg(stream, solicited);
            if (partCount > 1) {
                m.partNum(part);
            }
            if (part == 0 && !solicited) {
                m.clearCache(true);
            }
            if (part == partCount - 1) {
                m.complete(true);
            }
            m.payload(payloads.image(stream.item, stream.view, part, partCount));
            provider.submit(m, stream.handle);
            count("refreshes");
        }
    }

    private RefreshMsg refreshMsg(Stream stream, boolean solicited) {
        ServedItem item = stream.item;
        RefreshMsg m = EmaFactory.createRefreshMsg().domainType(item.domain).name(item.name)
                .serviceName(options.service.name).solicited(solicited).itemGroup(GROUP.duplicate())
                .state(StreamState.OPEN, DataState.OK, StatusCode.NONE, "")
                .qos(OmmQos.Timeliness.REALTIME, OmmQos.Rate.TICK_BY_TICK);
        if (options.hasSequence) {
            m.seqNum(item.updateCount() & 0xffff_ffffL);
        }
        if (options.permissionData != null) {
            m.permissionData(options.permissionData.duplicate());
        }
        if (stream.isPrivate) {
            m.privateStream(true);
        }
        return m;
    }

    private void status(ServedItem item, Commands.State state) {
        for (Stream stream : streamsOf(item)) {
            StatusMsg m = EmaFactory.createStatusMsg().domainType(item.domain).name(item.name)
                    .serviceName(options.service.name)
                    .state(state.stream, state.data, state.code, state.text);
            if (stream.isPrivate) {
                m.privateStream(true);
            }
            provider.submit(m, stream.handle);
        }
        if (state.stream >= StreamState.CLOSED_RECOVER) {
            streams.values().removeIf(stream -> stream.item == item);
        }
    }

    private void count(String what) {
        counts.merge(what, 1L, Long::sum);
    }

    /** Whether to go on. */
    private boolean execute(String line) {
        List<String> words = new ArrayList<>(Arrays.asList(line.trim().split(" +")));
        String verb = words.remove(0);
        if (verb.equals(Commands.END)) {
            return false;
        }
        try {
            if (!new ServiceCommands(options.service, provider).execute(verb, words)) {
                executeOfItems(verb, words);
            }
            Json.line("done", "command", line);
        } catch (UsageError | OmmException | IndexOutOfBoundsException e) {
            Json.line("error", "command", line, "text", e.getMessage());
        }
        return true;
    }

    private void executeOfItems(String verb, List<String> words) throws UsageError {
        if (verb.equals("rate")) {
            pace.set(Arguments.number("rate", words.get(0), 0, 1_000_000));
            return;
        }
        if (verb.equals("posts")) {
            postAnswer = new PostAnswer(words.get(0));
            return;
        }
        ServedItem item = items.get(words.get(0) + ":" + words.get(1));
        if (item == null) {
            throw new UsageError("nobody asked for " + words.get(1) + " of domain " + words.get(0));
        }
        switch (verb) {
            case "update":
                long updateCount = Arguments.number("count", words.get(2), 1, 1_000_000);
                for (long i = 0; i < updateCount; i++) {
                    update(item);
                }
                break;
            case "refresh":
                streamsOf(item).forEach(stream -> refresh(stream, false));
                break;
            case "status":
                status(item, new Commands.State(words.subList(2, words.size())));
                break;
            case "generic":
                streamsOf(item).forEach(stream -> generic(stream, item));
                break;
            default:
                throw new UsageError("command " + verb + " is unknown");
        }
    }

    private void generic(Stream stream, ServedItem item) {
        ElementList payload = EmaFactory.createElementList();
        payload.add(EmaFactory.createElementEntry().ascii("From", "provider"));
        provider.submit(EmaFactory.createGenericMsg().domainType(item.domain).name(item.name).complete(true)
                .payload(payload), stream.handle);
    }

    @Override
    public void onReqMsg(ReqMsg m, OmmProviderEvent event) {
        if (m.domainType() == EmaRdm.MMT_LOGIN) {
            count("logins");
            logins.answer(m, event, provider);
            return;
        }
        count("requests");
        String name = m.hasName() ? m.name() : "";
        boolean isKnown = !name.isEmpty() && (options.items == null || options.items.contains(name));
        if (!isKnown) {
            tell("request", m, false, null);
            refuse(m, event.handle());
            return;
        }
        // One name with other parts of a key is another item, with other data.
        Map<String, Object> parts = KeyParts.of(m);
        String key = m.domainType() + ":" + name + (parts.isEmpty() ? "" : " " + parts);
        ServedItem item = items.computeIfAbsent(key,
                unused -> new ServedItem(m.domainType(), name, options.seed + parts.hashCode()));
        tell("request", m, true, item);
        Stream stream = new Stream(item, event, m);
        if (m.interestAfterRefresh()) {
            streams.put(stream.handle, stream);
        }
        if (m.initialImage()) {
            refresh(stream, true);
        }
    }

    private void refuse(ReqMsg m, long handle) {
        StatusMsg status = EmaFactory.createStatusMsg().domainType(m.domainType())
                .state(StreamState.CLOSED, DataState.SUSPECT, StatusCode.NOT_FOUND, "no such item");
        if (m.hasName()) {
            status.name(m.name()).serviceName(options.service.name);
        }
        if (m.privateStream()) {
            status.privateStream(true);
        }
        provider.submit(status, handle);
    }

    /** @param item null: it is of no matter */
    private static void tell(String ev, ReqMsg m, boolean isKnown, ServedItem item) {
        View view = View.of(m);
        Json.line(ev, "item", m.hasName() ? m.name() : null, "domain", m.domainType(),
                "service", m.hasServiceName() ? m.serviceName() : null, "stream", m.streamId(),
                "streaming", m.interestAfterRefresh(), "image", m.initialImage(), "pause", m.pause(),
                "private", m.privateStream(), "batch", m.hasBatch(),
                "view", view == null ? null : view.toString(),
                "priority", m.hasPriority() ? m.priorityClass() + ":" + m.priorityCount() : null,
                "conflation_info", m.conflatedInUpdates(), "key", KeyParts.of(m),
                "known", isKnown, "base", item == null ? null : item.base);
    }

    @Override
    public void onReissue(ReqMsg m, OmmProviderEvent event) {
        count("reissues");
        tell("reissue", m, true, null);
        if (m.domainType() == EmaRdm.MMT_LOGIN) {
            streams.values().stream().filter(s -> s.client == event.clientHandle())
                    .forEach(s -> s.isPaused = m.pause());
            return;
        }
        Stream stream = streams.get(event.handle());
        if (stream == null) {
            return;
        }
        // A pause and a change of priority leave the view as it is.
        if (m.hasView() || m.initialImage()) {
            stream.view = View.of(m);
        }
        stream.isPaused = m.pause();
        if (m.initialImage()) {
            refresh(stream, true);
        }
    }

    @Override
    public void onClose(ReqMsg m, OmmProviderEvent event) {
        if (m.domainType() == EmaRdm.MMT_LOGIN) {
            streams.values().removeIf(stream -> stream.client == event.clientHandle());
            count("logouts");
            Json.line("logout", "client", event.clientHandle());
            return;
        }
        count("closes");
        Stream closed = streams.remove(event.handle());
        Json.line("close", "domain", m.domainType(), "item", closed == null ? null : closed.item.name);
    }

    @Override
    public void onPostMsg(PostMsg m, OmmProviderEvent event) {
        count("posts");
        Stream stream = streams.get(event.handle());
        String name = m.hasName() ? m.name() : stream == null ? null : stream.item.name;
        Json.line("post", "item", name, "domain", m.domainType(), "on_stream", stream != null,
                "id", m.hasPostId() ? m.postId() : null, "seq", m.hasSeqNum() ? m.seqNum() : null,
                "part", m.hasPartNum() ? m.partNum() : null, "complete", m.complete(), "ack", m.solicitAck(),
                "user_id", m.publisherIdUserId(), "user_address", m.publisherIdUserAddress(),
                "payload_type", Value.name(m.payload().dataType()));
        if (options.publishesPosts && name != null) {
            publish(m, items.get(m.domainType() + ":" + name));
        }
        AckMsg answer = postAnswer.to(m);
        if (answer != null) {
            provider.submit(answer, event.handle());
        }
    }

    /** What was posted is an update for all who watch the item. */
    private void publish(PostMsg m, ServedItem item) {
        FieldList fields = PostAnswer.fields(m);
        if (item == null || fields == null) {
            return;
        }
        Map<Integer, long[]> values = item.post(fields);
        for (Stream stream : streamsOf(item)) {
            if (!stream.isPaused) {
                submit(stream, updateMsg(item).payload(payloads.posted(values, stream.view)));
            }
        }
    }

    @Override
    public void onGenericMsg(GenericMsg m, OmmProviderEvent event) {
        count("generics");
        boolean hasElements = m.payload().dataType() == DataTypes.ELEMENT_LIST;
        Stream stream = streams.get(event.handle());
        Json.line("generic", "item", stream == null ? null : stream.item.name, "domain", m.domainType(),
                "name", m.hasName() ? m.name() : null, "seq", m.hasSeqNum() ? m.seqNum() : null,
                "payload", hasElements ? Elements.json(m.payload().elementList()) : null);
        if (m.domainType() == EmaRdm.MMT_LOGIN || !options.echoesGenerics) {
            return;
        }
        ElementList payload = EmaFactory.createElementList();
        payload.add(EmaFactory.createElementEntry().ascii("Echo", m.hasName() ? m.name() : ""));
        GenericMsg echo = EmaFactory.createGenericMsg().domainType(m.domainType()).name("answer")
                .complete(true).payload(payload);
        if (m.hasSeqNum()) {
            echo.seqNum(m.seqNum());
        }
        provider.submit(echo, event.handle());
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
    public void onAllMsg(Msg m, OmmProviderEvent event) {
        // each class has its own method
    }
}
