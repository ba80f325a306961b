package tickcast.interop;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** How a tool reaches a server or is reached: compression, encryption, WebSocket. README.md, "Transport". */
final class Transport {
    private static final List<String> COMMON = List.of("compression", "compression-threshold", "websocket",
            "ping-timeout", "tls-certificate", "tls-key", "tls-store", "tls-store-password");

    /** Of a client the server's, of a server unused. */
    String host;
    String port;
    /** As the library names it. */
    String compression;
    /** Messages below it stay as they are, -1: the library's choice. */
    long compressionThresholdBytes;
    /** Sub-protocols of a WebSocket, null: RSSL over a socket. */
    String webSocketProtocols;
    long pingTimeoutS;
    boolean isEncrypted;
    /** PKCS12 file, null: none. */
    String keyStore;
    String keyStorePassword;
    /** `1.2` or `1.3`, empty: the library's choice. */
    String[] tlsVersions = {};

    private Transport() {
    }

    static Map<String, Arguments.Kind> clientOptions() {
        Map<String, Arguments.Kind> options = commonOptions();
        options.put("host", Arguments.Kind.VALUE);
        options.put("tls", Arguments.Kind.FLAG);
        options.put("tls-ca", Arguments.Kind.VALUE);
        options.put("tls-version", Arguments.Kind.VALUE);
        return options;
    }

    static Map<String, Arguments.Kind> serverOptions() {
        Map<String, Arguments.Kind> options = commonOptions();
        options.put("port", Arguments.Kind.VALUE);
        return options;
    }

    private static Map<String, Arguments.Kind> commonOptions() {
        Map<String, Arguments.Kind> options = new LinkedHashMap<>();
        COMMON.forEach(name -> options.put(name, Arguments.Kind.VALUE));
        return options;
    }

    /** @param otherwise HOST:PORT where no `--host` is given */
    static Transport client(Arguments a, String otherwise) throws UsageError {
        Transport t = common(a);
        String[] address = Arguments.hostAndPort("--host", a.text("host", otherwise));
        t.host = address[0];
        t.port = address[1];
        t.isEncrypted = a.has("tls");
        if (!t.isEncrypted && (a.has("tls-ca") || a.has("tls-version") || t.keyStore != null)) {
            throw new UsageError("--tls-... without --tls");
        }
        if (a.has("tls-ca")) {
            t.useKeyStore(KeyStores.ofPem(a.text("tls-ca", null), a.text("tls-certificate", null),
                    a.text("tls-key", null)));
        }
        if (a.has("tls-version")) {
            t.tlsVersions = new String[] {a.choice("tls-version", null, List.of("1.2", "1.3"))};
        }
        return t;
    }

    static Transport server(Arguments a, long otherwise) throws UsageError {
        Transport t = common(a);
        t.port = Long.toString(a.number("port", otherwise, 1, 65535));
        t.isEncrypted = t.keyStore != null;
        return t;
    }

    private static Transport common(Arguments a) throws UsageError {
        Transport t = new Transport();
        t.compression = compression(a.choice("compression", "none", List.of("none", "zlib", "lz4")));
        t.compressionThresholdBytes = a.number("compression-threshold", -1, 30, 1_000_000);
        t.webSocketProtocols = a.text("websocket", null);
        t.pingTimeoutS = a.number("ping-timeout", 30, 1, 255);
        if (a.has("tls-certificate") != a.has("tls-key")) {
            throw new UsageError("--tls-certificate and --tls-key go together");
        }
        if (a.has("tls-store")) {
            t.keyStore = a.text("tls-store", null);
            t.keyStorePassword = a.text("tls-store-password", KeyStores.PASSWORD);
        } else if (a.has("tls-certificate")) {
            t.useKeyStore(KeyStores.ofPem(null, a.text("tls-certificate", null), a.text("tls-key", null)));
        }
        return t;
    }

    private void useKeyStore(String file) {
        keyStore = file;
        keyStorePassword = KeyStores.PASSWORD;
    }

    private static String compression(String name) {
        switch (name) {
            case "zlib":
                return "ZLib";
            case "lz4":
                return "LZ4";
            default:
                return "None";
        }
    }
}
