package tickcast.interop;

import com.refinitiv.ema.access.ReqMsg;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What the consumer is to watch, and what must hold at its end. README.md is the reference. */
final class ConsumerOptions {
    private static final Map<String, Arguments.Kind> KNOWN = new LinkedHashMap<>();

    static {
        KNOWN.putAll(Transport.clientOptions());
        KNOWN.putAll(StepOptions.KNOWN);
        for (String name : List.of("service", "service-id", "items", "domain", "item", "user", "password",
                "position", "conflated", "single-open", "allow-suspect-data", "msg-key-in-updates", "view", "priority",
                "timeout", "updates", "updates-after", "until-idle", "until", "until-at", "pace", "run-for", "expect-status",
                "expect-closed", "standby", "standby-by", "next-host")) {
            KNOWN.put(name, Arguments.Kind.VALUE);
        }
        KeyParts.OPTIONS.forEach(name -> KNOWN.put(name, Arguments.Kind.VALUE));
        for (String name : List.of("snapshot", "batch", "private", "rtt", "check-seq", "check-map",
                "no-final", "show-updates", "expect-login-reject")) {
            KNOWN.put(name, Arguments.Kind.FLAG);
        }
    }

    Transport transport;
    /** Host and port of a second server, which stands by; null: none. */
    String[] standby;
    /** Host and port of the server that is tried when that of `--host` is gone; null: none. */
    String[] nextHost;
    /** Servers are told their roles by service, not by login. */
    boolean isStandbyByService;
    /** The service by name, null where it is asked for by number. */
    String service;
    /** -1: by name. */
    int serviceId;
    String user;
    /** null: none. */
    String password;
    String position;
    /** Attributes of the login request that are not the library's own choice. */
    final Map<String, Long> loginAttributes = new LinkedHashMap<>();
    boolean keyInUpdates;
    boolean roundTrips;
    boolean expectLoginReject;
    boolean snapshot;
    boolean batch;
    boolean isPrivate;
    /** null: all fields. */
    View view;
    /** Milliseconds of the conflated quality that is asked for, 0: every update. */
    int conflatedMs;
    /** Class and count, null: the library's. */
    int[] priority;
    KeyParts keyParts;
    StepOptions steps;
    /** DOMAIN:NAME in the order of the command line. */
    final Set<String> items = new LinkedHashSet<>();

    long timeoutS;
    long updateCount;
    /** Of each item, once all steps are done. */
    long updateCountAfter;
    /** Milliseconds without a message of an item, -1: not asked for. */
    long untilIdleMs;
    /** Path of a file that ends the run by being there, null: none. */
    String untilFile;
    /** Path of a file of lines `DOMAIN:NAME NUMBER`, sequence numbers that end the run; null: none. */
    String untilAtFile;
    /** Path of a file with the microseconds that each update takes, null: none. */
    String paceFile;
    long runForS;

    boolean checkSequence;
    boolean checkMap;
    boolean printFinal;
    boolean showUpdates;
    /** DOMAIN:NAME to status code, of items that must be closed; `any` is any code. */
    final Map<String, String> expectedClosed = new LinkedHashMap<>();
    /** DOMAIN:NAME to patterns of states. */
    final Map<String, List<String>> expectedStates = new LinkedHashMap<>();

    private ConsumerOptions() {
    }

    static ConsumerOptions parse(String[] words) throws UsageError {
        Arguments a = new Arguments(words, KNOWN);
        ConsumerOptions o = new ConsumerOptions();
        o.transport = Transport.client(a, "localhost:14002");
        if (a.has("standby")) {
            o.standby = Arguments.hostAndPort("--standby", a.text("standby", null));
        }
        if (a.has("next-host")) {
            o.nextHost = Arguments.hostAndPort("--next-host", a.text("next-host", null));
        }
        if (o.standby != null && o.nextHost != null) {
            throw new UsageError("--standby and --next-host exclude each other");
        }
        o.isStandbyByService = a.choice("standby-by", "login", List.of("login", "service")).equals("service");
        o.readRequest(a);
        o.readItems(a);
        o.runForS = a.number("run-for", 0, 1, 1_000_000_000);
        o.timeoutS = a.number("timeout", o.runForS + 30, 1, 1_000_000_000);
        o.updateCount = a.number("updates", 0, 0, Long.MAX_VALUE);
        o.updateCountAfter = a.number("updates-after", 0, 0, Long.MAX_VALUE);
        o.untilIdleMs = a.number("until-idle", -1, 1, 1_000_000_000);
        o.untilFile = a.text("until", null);
        o.untilAtFile = a.text("until-at", null);
        o.paceFile = a.text("pace", null);
        long ends = (o.untilFile != null ? 1 : 0) + (o.untilAtFile != null ? 1 : 0);
        if (ends > 1 || ends > 0 && (o.runForS > 0 || o.untilIdleMs > 0)) {
            throw new UsageError("--until and --until-at are the end; no other end goes with them");
        }
        o.checkSequence = a.has("check-seq");
        o.checkMap = a.has("check-map");
        o.printFinal = !a.has("no-final");
        o.showUpdates = a.has("show-updates");
        o.expectLoginReject = a.has("expect-login-reject");
        o.steps = StepOptions.parse(a);
        o.readExpectations(a);
        return o;
    }

    /** Login, and how items are asked for. */
    private void readRequest(Arguments a) throws UsageError {
        service = a.text("service", null);
        serviceId = (int) a.number("service-id", -1, 0, 65535);
        if (service == null == serviceId < 0) {
            throw new UsageError("one of --service and --service-id is needed");
        }
        user = a.text("user", "tickcast");
        password = a.text("password", null);
        position = a.text("position", "127.0.0.1/net");
        if (a.has("single-open")) {
            loginAttributes.put("SingleOpen", a.number("single-open", 1, 0, 1));
        }
        if (a.has("allow-suspect-data")) {
            loginAttributes.put("AllowSuspectData", a.number("allow-suspect-data", 1, 0, 1));
        }
        keyInUpdates = a.number("msg-key-in-updates", 1, 0, 1) == 1;
        roundTrips = a.has("rtt");
        conflatedMs = (int) a.number("conflated", 0, 1, 65535);
        snapshot = a.has("snapshot");
        batch = a.has("batch");
        isPrivate = a.has("private");
        view = a.has("view") ? View.parse(a.text("view", null)) : null;
        priority = StepOptions.priority(a, "priority");
        keyParts = new KeyParts(a);
    }

    /** A request with the service, by name or number. */
    ReqMsg service(ReqMsg request) {
        return service == null ? request.serviceId(serviceId) : request.serviceName(service);
    }

    private void readItems(Arguments a) throws UsageError {
        String domain = a.text("domain", "6");
        Arguments.number("--domain", domain, 6, 255);
        for (String name : split(a.text("items", ""), ",")) {
            addItem(domain + ":" + name);
        }
        for (String item : a.all("item")) {
            addItem(item);
        }
        if (items.isEmpty()) {
            throw new UsageError("no --item and no --items");
        }
    }

    private void addItem(String item) throws UsageError {
        int colon = item.indexOf(':');
        if (colon <= 0 || colon == item.length() - 1) {
            throw new UsageError("--item " + item + " is not DOMAIN:NAME");
        }
        Arguments.number("--item domain", item.substring(0, colon), 6, 255);
        if (!items.add(item)) {
            throw new UsageError("item " + item + " is given twice");
        }
    }

    private void readExpectations(Arguments a) throws UsageError {
        for (String text : a.all("expect-closed")) {
            for (String item : scope("--expect-closed", text)) {
                expectedClosed.put(item, expectation(text));
            }
        }
        for (String text : a.all("expect-status")) {
            List<String> patterns = split(expectation(text), ",");
            for (String pattern : patterns) {
                if (pattern.split("/", -1).length > 3) {
                    throw new UsageError("--expect-status " + pattern
                            + " is not DATA, STREAM/DATA or STREAM/DATA/CODE");
                }
            }
            for (String item : scope("--expect-status", text)) {
                expectedStates.put(item, patterns);
            }
        }
    }

    /** The items that `[DOMAIN:NAME=]EXPECTATION` speaks of. */
    private Set<String> scope(String option, String text) throws UsageError {
        int equals = text.lastIndexOf('=');
        if (expectation(text).isEmpty()) {
            throw new UsageError(option + " " + text + " says nothing");
        }
        if (equals < 0) {
            return items;
        }
        String item = text.substring(0, equals);
        if (!items.contains(item)) {
            throw new UsageError(option + " speaks of " + item + ", which is not watched");
        }
        return Set.of(item);
    }

    private static String expectation(String text) {
        return text.substring(text.lastIndexOf('=') + 1);
    }

    private static List<String> split(String text, String separator) {
        List<String> parts = new ArrayList<>();
        for (String part : text.split(separator)) {
            if (!part.isEmpty()) {
                parts.add(part);
            }
        }
        return parts;
    }
}
