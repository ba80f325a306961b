package tickcast.interop;

import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.OmmConsumer;
import com.refinitiv.ema.access.OmmConsumerConfig.OperationModel;
import com.refinitiv.ema.access.OmmException;
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
    private final LoginWatch login = new LoginWatch();
    private final DirectoryWatch directory = new DirectoryWatch();
    private final List<DictionaryWatch> dictionaries =
            List.of(new DictionaryWatch(DictionaryWatch.FIELDS), new DictionaryWatch(DictionaryWatch.ENUMS));
    private final Map<Integer, String> fieldNames = new TreeMap<>();
    private final List<WatchedItem> items = new ArrayList<>();

    private long lastMessageNs;
    private int cameCount;
    /** One that was closed though it should not be, null if there is none. */
    private WatchedItem closedItem;
    private long nextLookNs;
    private boolean fileIsThere;

    ConsumerTool(ConsumerOptions options) {
        this.options = options;
        for (String item : options.items) {
            int colon = item.indexOf(':');
            items.add(new WatchedItem(Integer.parseInt(item.substring(0, colon)), item.substring(colon + 1),
                    fieldNames, options.expectedStates.getOrDefault(item, List.of()), options.showUpdates,
                    this::onMessage));
        }
    }

    /** The exit status. */
    int run() {
        long startNs = System.nanoTime();
        List<String> faults = new ArrayList<>();
        OmmConsumer consumer = null;
        try {
            consumer = connect();
            open(consumer);
            watch(consumer, startNs, faults);
        } catch (OmmException e) {
            faults.add("the library gave up: " + e.getMessage());
        }
        judge(faults);
        report(faults, startNs);
        close(consumer);
        return faults.isEmpty() ? 0 : 1;
    }

    private OmmConsumer connect() {
        long timeoutMs = TimeUnit.SECONDS.toMillis(options.timeoutS);
        return EmaFactory.createOmmConsumer(EmaFactory.createOmmConsumerConfig()
                .config(EmaSettings.consumer(options.host, options.port, timeoutMs, options.compression))
                .consumerName(EmaSettings.CONSUMER)
                .operationModel(OperationModel.USER_DISPATCH)
                .username(options.user)
                .position(options.position));
    }

    private void open(OmmConsumer consumer) {
        consumer.registerClient(request(EmaRdm.MMT_LOGIN), login);
        consumer.registerClient(request(EmaRdm.MMT_DIRECTORY).filter(DirectoryWatch.FILTERS), directory);
        for (DictionaryWatch dictionary : dictionaries) {
            consumer.registerClient(request(EmaRdm.MMT_DICTIONARY).name(dictionary.name)
                    .serviceName(options.service).filter(EmaRdm.DICTIONARY_VERBOSE)
                    .interestAfterRefresh(false), dictionary);
        }
        for (WatchedItem item : items) {
            consumer.registerClient(request(item.domain).name(item.name).serviceName(options.service)
                    .interestAfterRefresh(!options.snapshot), item);
        }
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
        if (options.untilFile != null) {
            return fileIsThere(now);
        }
        if (options.runForS > 0 && now - startNs < TimeUnit.SECONDS.toNanos(options.runForS)) {
            return false;
        }
        return allCame() && (options.untilIdleMs < 0
                || now - lastMessageNs >= TimeUnit.MILLISECONDS.toNanos(options.untilIdleMs));
    }

    /** Whether everything that must come before the end has come; what has come once does not go away. */
    private boolean allCame() {
        while (cameCount < items.size() && awaited(items.get(cameCount)) == null) {
            cameCount++;
        }
        return cameCount == items.size() && login.wasAccepted() && directory.hasShown(options.service)
                && dictionaries.stream().allMatch(DictionaryWatch::isComplete);
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
        if (!directory.hasShown(options.service)) {
            awaited.add("the directory of " + directory.serviceCount() + " services has no "
                    + options.service);
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
        for (WatchedItem item : items) {
            String code = options.expectedClosed.getOrDefault(item.key(), "any");
            if (item.states.isClosed() && !code.equals("any") && !code.equalsIgnoreCase(item.states.code())) {
                faults.add(item.key() + " was closed with " + item.states.code() + ", expected " + code);
            }
            if (item.image.faultCount() > 0) {
                faults.add(item.key() + ": values or containers that cannot be read: " + item.image.counts());
            }
            if (options.checkSequence && !item.sequence.isGood()) {
                faults.add(item.key() + ": sequence numbers: " + item.sequence.counts());
            }
            if (options.checkMap && item.image.mapFaultCount() > 0) {
                faults.add(item.key() + ": map actions: " + item.image.counts());
            }
        }
    }

    private void report(List<String> faults, long startNs) {
        if (options.printFinal) {
            items.forEach(WatchedItem::printFinal);
        }
        List<Object> summaries = new ArrayList<>();
        items.forEach(item -> summaries.add(item.summary()));
        Map<String, Object> names = new LinkedHashMap<>();
        fieldNames.forEach((id, name) -> names.put(id.toString(), name));
        Map<String, Object> service = directory.service(options.service);
        Json.lastLine("result", "status", faults.isEmpty() ? "OK" : "FAIL",
                "reasons", faults.subList(0, Math.min(faults.size(), REASONS_MAX)),
                "reason_count", faults.size(),
                "seconds", TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startNs) / 1000.0,
                "images", items.stream().filter(WatchedItem::hasImage).count(),
                "refreshes", items.stream().mapToLong(WatchedItem::refreshCount).sum(),
                "updates", items.stream().mapToLong(WatchedItem::updateCount).sum(),
                "statuses", items.stream().mapToLong(WatchedItem::statusCount).sum(),
                "closed", items.stream().filter(item -> item.states.isClosed()).count(),
                "login", login.summary(), "service", service, "field_names", names, "items", summaries);
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
