package tickcast.interop;

import java.nio.ByteBuffer;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What an interactive provider of made-up data serves and how it behaves. README.md is the reference. */
final class IProviderOptions {
    private static final Map<String, Arguments.Kind> KNOWN = new LinkedHashMap<>();

    static {
        KNOWN.putAll(Transport.serverOptions());
        KNOWN.putAll(ServiceOptions.options());
        for (String name : List.of("items", "seed", "rate", "updates", "close-after", "close-state", "parts",
                "still-entries", "login-reject", "without", "posts", "permission-data", "conflated",
                "run-for")) {
            KNOWN.put(name, Arguments.Kind.VALUE);
        }
        for (String name : List.of("publish-posts", "no-echo", "rtt", "no-seq")) {
            KNOWN.put(name, Arguments.Kind.FLAG);
        }
    }

    final Transport transport;
    final ServiceOptions service;
    /** Names that are known, null: any. */
    final Set<String> items;
    final long seed;
    /** Updates of each item a second. */
    final long rate;
    /** Of each item, -1: no end. */
    final long updateCountMax;
    /** Streams are closed after so many updates of the item, -1: never. */
    final long closeAfterCount;
    final Commands.State closeState;
    final int partCount;
    final int stillEntryCount;
    /** The text with which each login is refused, null: logins are accepted. */
    final String loginReject;
    /** Features of the login that are not announced: batch, view, post, pause. */
    final Set<String> without;
    final PostAnswer postAnswer;
    final boolean publishesPosts;
    final boolean echoesGenerics;
    final boolean measuresRoundTrips;
    final boolean hasSequence;
    /** null: none. */
    final ByteBuffer permissionData;
    /** Updates that each update says it stands for, 0: nothing is said. */
    final int conflatedCount;
    /** 0: until it is ended. */
    final long runForS;

    IProviderOptions(String[] words) throws UsageError {
        Arguments a = new Arguments(words, KNOWN);
        transport = Transport.server(a, 14002);
        service = new ServiceOptions(a, "5,6,7,8,9,10,128,129,130,131,132,133,134");
        items = a.has("items") ? Set.of(a.text("items", "").split(",")) : null;
        seed = a.number("seed", 0, 0, 0xffff_ffffL);
        rate = a.number("rate", 10, 0, 1_000_000);
        updateCountMax = a.number("updates", -1, 0, Long.MAX_VALUE);
        closeAfterCount = a.number("close-after", -1, 0, Long.MAX_VALUE);
        String state = a.text("close-state", "Closed Suspect 0 closed by the provider");
        closeState = new Commands.State(List.of(state.split(" ")));
        partCount = (int) a.number("parts", 1, 1, 1_000);
        stillEntryCount = (int) a.number("still-entries", 0, 0, 90_000);
        loginReject = a.text("login-reject", null);
        without = Set.of(a.text("without", "").split(","));
        postAnswer = new PostAnswer(a.text("posts", "ack"));
        publishesPosts = a.has("publish-posts");
        echoesGenerics = !a.has("no-echo");
        measuresRoundTrips = a.has("rtt");
        hasSequence = !a.has("no-seq");
        permissionData = a.has("permission-data") ? bytes(a.text("permission-data", "")) : null;
        conflatedCount = (int) a.number("conflated", 0, 1, 32767);
        runForS = a.number("run-for", 0, 1, 1_000_000);
    }

    private static ByteBuffer bytes(String hex) throws UsageError {
        if (!hex.matches("([0-9a-f]{2})+")) {
            throw new UsageError("--permission-data " + hex + " is no row of bytes in hex");
        }
        ByteBuffer bytes = ByteBuffer.allocate(hex.length() / 2);
        for (int i = 0; i < hex.length(); i += 2) {
            bytes.put((byte) Integer.parseInt(hex.substring(i, i + 2), 16));
        }
        bytes.flip();
        return bytes;
    }
}
