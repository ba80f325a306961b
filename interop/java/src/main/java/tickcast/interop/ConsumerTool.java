package tickcast.interop;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmConsumer;
import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.ema.access.OmmConsumerConfig.OperationModel;
import com.refinitiv.ema.access.OmmException;
import com.refinitiv.ema.access.OmmQos;
import com.refinitiv.ema.access.ReqMsg;
import com.refinitiv.ema.rdm.EmaRdm;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;

/** Logs in, watches items until the end that the options name, and judges what it saw. */
final class ConsumerTool {
    private static final long DISPATCH_US = 10_000;
    private static final long LOOK_AT_FILE_NS = TimeUnit.MILLISECONDS.toNanos(50);
    private static final int REASONS_MAX = 20;

    private final ConsumerOptions options;
    private final PostLog posts;
    private final LoginWatch login;
    private final DirectoryWatch directory = new DirectoryWatch();
    private final List<DictionaryWatch> dictionaries =
            List.of(new DictionaryWatch(DictionaryWatch.FIELDS), new DictionaryWatch(DictionaryWatch.ENUMS));
    private final Map<Integer, String> fieldNames = new TreeMap<>();
    private final List<WatchedItem> items = new ArrayList<>();
    private final Map<Integer, BatchWatch> batches = new TreeMap<>();
    private final Steps steps;

    private long lastMessageNs;
    private int cameCount;
    /** Of each item in order, when the last step was done; null before. */
    private long[] updatesBefore;
    /** One that was closed though it should not be, null if there is none. */
    private WatchedItem closedItem;
    private final PlaceFile place;
    /** null: not there yet. */
    private OmmConsumer consumer;
    private long nextLookNs;
    private boolean fileIsThere;

    ConsumerTool(ConsumerOptions options) {
        this.options = options;
        posts = new PostLog(options.steps.expectedNackCode);
        login = new LoginWatch(posts);
        for (String item : options.items) {
            int colon = item.indexOf(':');
            items.add(new WatchedItem(Integer.parseInt(item.substring(0, colon)), item.substring(colon + 1),
                    fieldNames, options.expectedStates.getOrDefault(item, List.of()), posts,
                    options.showUpdates, this::onMessage));
        }
        items.forEach(item -> item.image.setViews(options.view, null));
        place = new PlaceFile(options.untilAtFile);
        if (options.paceFile != null) {
            Slowness slowness = new Slowness(options.paceFile);
            items.forEach(item -> item.afterUpdate(slowness));
        }
        steps = new Steps(options, items, posts);
    }

    /** The exit status, when the library has closed all. */
    int run() {
        int status = judged();
        close(consumer);
        return status;
    }

    /** The exit status, when all is reported. The library's consumer is still open. */
    int judged() {
        long startNs = System.nanoTime();
        List<String> faults = new ArrayList<>();
        try {
            consumer = connect();
            open(consumer);
            watch(consumer, startNs, faults);
        } catch (OmmException e) {
            if (options.expectLoginReject) {
                return reportReject(e, startNs);
            }
            faults.add("the library gave up: " + e.getMessage());
        }
        judge(faults);
        report(faults, startNs);
        return faults.isEmpty() ? 0 : 1;
    }

    private OmmConsumer connect() {
        OmmConsumerConfig config = EmaFactory.createOmmConsumerConfig()
                .config(EmaSettings.consumer(options))
                .consumerName(EmaSettings.CONSUMER)
                .operationModel(OperationModel.USER_DISPATCH)
                .username(options.user)
                .position(options.position);
        if (options.password != null) {
            config.password(options.password);
        }
        if (!options.loginAttributes.isEmpty()) {
            config.addAdminMsg(loginRequest());
        }
        EmaSettings.encrypt(config, options.transport);
        // One after the other: EMA 3.9.1 fills pools of the whole process while it makes a consumer, without a lock
        // (com.refinitiv.eta.json.util.JsonFactory.initPools), and of a hundred at once one fails now and then.
        synchronized (ConsumerTool.class) {
            return EmaFactory.createOmmConsumer(config);
        }
    }

    private ReqMsg loginRequest() {
        // A request of one's own replaces the library's, with all that it says by itself.
        ElementList attributes = EmaFactory.createElementList();
        attributes.add(EmaFactory.createElementEntry().ascii("ApplicationId", "256"));
        attributes.add(EmaFactory.createElementEntry().ascii("Position", options.position));
        options.loginAttributes.forEach((name, value) ->
                attributes.add(EmaFactory.createElementEntry().uintValue(name, value)));
        return request(EmaRdm.MMT_LOGIN).name(options.user).nameType(EmaRdm.USER_NAME).attrib(attributes);
    }

    private void open(OmmConsumer consumer) {
        steps.use(consumer, consumer.registerClient(request(EmaRdm.MMT_LOGIN), login));
        consumer.registerClient(request(EmaRdm.MMT_DIRECTORY).filter(DirectoryWatch.FILTERS), directory);
        for (DictionaryWatch dictionary : dictionaries) {
            consumer.registerClient(options.service(request(EmaRdm.MMT_DICTIONARY).name(dictionary.name))
                    .filter(EmaRdm.DICTIONARY_VERBOSE).interestAfterRefresh(false), dictionary);
        }
        if (options.batch) {
            openBatches(consumer);
            return;
        }
        for (WatchedItem item : items) {
            ReqMsg m = itemRequest(item.domain, EmaFactory.createElementList()).name(item.name);
            consumer.registerClient(m, item);
        }
    }

    /** One request for all items of a domain. */
    private void openBatches(OmmConsumer consumer) {
        items.forEach(item -> batches.computeIfAbsent(item.domain, d -> new BatchWatch()).add(item));
        batches.forEach((domain, batch) -> {
            OmmArray names = EmaFactory.createOmmArray();
            items.stream().filter(item -> item.domain == domain)
                    .forEach(item -> names.add(EmaFactory.createOmmArrayEntry().ascii(item.name)));
            ElementList payload = EmaFactory.createElementList();
            payload.add(EmaFactory.createElementEntry().array(EmaRdm.ENAME_BATCH_ITEM_LIST, names));
            batch.isOf(consumer.registerClient(itemRequest(domain, payload), batch));
        });
    }

    /** @param payload what the request carries besides the view */
    private ReqMsg itemRequest(int domain, ElementList payload) {
        ReqMsg m = options.keyParts.addTo(options.service(request(domain)))
                .interestAfterRefresh(!options.snapshot);
        if (options.isPrivate) {
            m.privateStream(true);
        }
        if (options.priority != null) {
            m.priority(options.priority[0], options.priority[1]);
        }
        if (options.conflatedMs > 0) {
            m.qos(OmmQos.Timeliness.REALTIME, options.conflatedMs);
        }
        if (options.view != null) {
            options.view.addTo(payload);
        }
        return payload.isEmpty() ? m : m.payload(payload);
    }

    private static ReqMsg request(int domain) {
        return EmaFactory.createReqMsg().domainType(domain);
    }

    /** Dispatches until the end, or until no waiting helps any more. */
    private void watch(OmmConsumer consumer, long startNs, List<String> faults) {
        long deadlineNs = startNs + TimeUnit.SECONDS.toNanos(options.timeoutS);
        while (!atEnd(startNs)) {
            if (System.nanoTime() - deadlineNs >= 0) {
                faults.add("timeout after " + options.timeoutS + " s");
                return;
            }
            if (irreparable() != null) {
                return;
            }
            consumer.dispatch(DISPATCH_US);
        }
    }

    private boolean atEnd(long startNs) {
        long now = System.nanoTime();
        goOn();
        if (options.untilFile != null) {
            return fileIsThere(now);
        }
        if (options.untilAtFile != null) {
            return place.isReached(now, items);
        }
        if (options.runForS > 0 && now - startNs < TimeUnit.SECONDS.toNanos(options.runForS)) {
            return false;
        }
        return updatesBefore != null && awaitedAfter() == null && (options.untilIdleMs < 0
                || now - lastMessageNs >= TimeUnit.MILLISECONDS.toNanos(options.untilIdleMs));
    }

    /** Whether everything that must come before the end has come; what has come once does not go away. */
    private boolean allCame() {
        while (cameCount < items.size() && awaited(items.get(cameCount)) == null) {
            cameCount++;
        }
        return cameCount == items.size() && login.wasAccepted() && directory.hasShown(options)
                && dictionaries.stream().allMatch(DictionaryWatch::isComplete);
    }

    /** Takes the steps once all came; notes where the updates stand when all steps are done. */
    private void goOn() {
        if (updatesBefore == null && allCame() && steps.awaited() == null) {
            updatesBefore = items.stream().mapToLong(WatchedItem::updateCount).toArray();
        }
    }

    /** What has to come still after the steps, null if nothing. */
    private String awaitedAfter() {
        for (int i = 0; i < items.size(); i++) {
            long came = items.get(i).updateCount() - updatesBefore[i];
            if (came < options.updateCountAfter) {
                return items.get(i).key() + " had " + came + " of " + options.updateCountAfter
                        + " updates after";
            }
        }
        return null;
    }

    private void onMessage(WatchedItem item) {
        lastMessageNs = System.nanoTime();
        boolean mayBeClosed = options.snapshot && item.hasImage();
        if (item.states.isClosed() && !mayBeClosed && !options.expectedClosed.containsKey(item.key())) {
            closedItem = item;
        }
    }

    private boolean fileIsThere(long now) {
        if (!fileIsThere && now - nextLookNs >= 0) {
            nextLookNs = now + LOOK_AT_FILE_NS;
            fileIsThere = Files.exists(Path.of(options.untilFile));
        }
        return fileIsThere;
    }

    /** Something that no waiting repairs, null if there is nothing. */
    private String irreparable() {
        for (DictionaryWatch dictionary : dictionaries) {
            if (dictionary.fault() != null) {
                return dictionary.fault();
            }
        }
        return closedItem == null ? null : closedItem.key() + " was closed: " + closedItem.states.last();
    }

    /** What has to come still before the end may be. */
    private List<String> awaited() {
        List<String> awaited = new ArrayList<>();
        if (!login.wasAccepted()) {
            awaited.add("login was not accepted: " + login);
        }
        if (!directory.hasShown(options)) {
            awaited.add("the directory of " + directory.serviceCount() + " services has no "
                    + (options.service == null ? "number " + options.serviceId : options.service));
        }
        for (DictionaryWatch dictionary : dictionaries) {
            if (!dictionary.isComplete()) {
                awaited.add("dictionary " + dictionary.name + " is not complete");
            }
        }
        for (WatchedItem item : items) {
            String text = awaited(item);
            if (text != null) {
                awaited.add(text);
            }
        }
        String last = !awaited.isEmpty() ? null : updatesBefore == null ? steps.awaited() : awaitedAfter();
        if (last != null) {
            awaited.add(last);
        }
        return awaited;
    }

    /** What has to come still for one item, null if nothing. */
    private String awaited(WatchedItem item) {
        if (item.states.awaited() != null) {
            return item.key() + ": state " + item.states + ", still expected: " + item.states.awaited();
        }
        if (options.expectedClosed.containsKey(item.key())) {
            return item.states.isClosed() ? null : item.key() + " is not closed: " + item.states;
        }
        if (!item.hasImage()) {
            return item.key() + " has no image, state " + item.states;
        }
        if (item.updateCount() < options.updateCount) {
            return item.key() + " had " + item.updateCount() + " of " + options.updateCount + " updates";
        }
        return null;
    }

    private void judge(List<String> faults) {
        if (irreparable() != null) {
            faults.add(irreparable());
        }
        faults.addAll(awaited());
        if (options.expectLoginReject) {
            faults.add("the login was accepted");
        }
        faults.addAll(posts.faults());
        batches.values().stream().filter(b -> b.fault() != null).forEach(b -> faults.add(b.fault()));
        for (WatchedItem item : items) {
            judge(item, faults);
        }
    }

    private void judge(WatchedItem item, List<String> faults) {
        String code = options.expectedClosed.getOrDefault(item.key(), "any");
        if (item.states.isClosed() && !code.equals("any") && !code.equalsIgnoreCase(item.states.code())) {
            faults.add(item.key() + " was closed with " + item.states.code() + ", expected " + code);
        }
        if (item.image.faultCount() > 0) {
            faults.add(item.key() + ": values or containers that cannot be read: " + item.image.counts());
        }
        if (item.image.outsideViewCount() > 0) {
            faults.add(item.key() + ": fields that the view does not have: " + item.image.counts());
        }
        if (item.genericsOutOfOrderCount() > 0) {
            faults.add(item.key() + ": generic messages out of order: " + item.genericsOutOfOrderCount());
        }
        if (options.checkSequence && !item.sequence.isGood()) {
            faults.add(item.key() + ": sequence numbers: " + item.sequence.counts());
        }
        if (options.checkMap && item.image.mapFaultCount() > 0) {
            faults.add(item.key() + ": map actions: " + item.image.counts());
        }
    }

    /** The end of a run that wanted to be turned away. */
    private int reportReject(OmmException e, long startNs) {
        Json.line("login_rejected", "text", e.getMessage());
        Json.lastLine("result", "status", "OK", "reasons", List.of(), "reason_count", 0,
                "seconds", seconds(startNs), "text", e.getMessage());
        return 0;
    }

    private static double seconds(long startNs) {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs) / 1000.0;
    }

    private void report(List<String> faults, long startNs) {
        if (options.printFinal) {
            items.forEach(WatchedItem::printFinal);
        }
        List<Object> summaries = new ArrayList<>();
        items.forEach(item -> summaries.add(item.summary()));
        Map<String, Object> names = new LinkedHashMap<>();
        fieldNames.forEach((id, name) -> names.put(id.toString(), name));
        Map<String, Object> service = directory.service(options);
        Json.lastLine("result", "status", faults.isEmpty() ? "OK" : "FAIL",
                "reasons", faults.subList(0, Math.min(faults.size(), REASONS_MAX)),
                "reason_count", faults.size(),
                "seconds", seconds(startNs),
                "images", items.stream().filter(WatchedItem::hasImage).count(),
                "refreshes", items.stream().mapToLong(WatchedItem::refreshCount).sum(),
                "updates", items.stream().mapToLong(WatchedItem::updateCount).sum(),
                "statuses", items.stream().mapToLong(WatchedItem::statusCount).sum(),
                "closed", items.stream().filter(item -> item.states.isClosed()).count(),
                "posts", posts.counts(), "login", login.summary(), "service", service,
                "field_names", names, "items", summaries);
    }

    private static void close(OmmConsumer consumer) {
        if (consumer == null) {
            return;
        }
        try {
            consumer.uninitialize();
        } catch (OmmException e) {
            System.err.println("while closing: " + e.getMessage());
        }
    }
}
