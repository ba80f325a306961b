package tickcast.interop;

import com.refinitiv.eta.codec.Codec;
import com.refinitiv.eta.transport.AcceptOptions;
import com.refinitiv.eta.transport.BindOptions;
import com.refinitiv.eta.transport.Channel;
import com.refinitiv.eta.transport.CompressionTypes;
import com.refinitiv.eta.transport.ConnectionTypes;
import com.refinitiv.eta.transport.Error;
import com.refinitiv.eta.transport.InitArgs;
import com.refinitiv.eta.transport.Server;
import com.refinitiv.eta.transport.TransportFactory;
import com.refinitiv.eta.transport.TransportReturnCodes;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * A server that takes non-interactive providers and says what they publish. EMA has none, so this one stands
 * on the layers below it: transport and codec of ETA.
 */
final class NiSinkTool {
    private static final long PAUSE_MS = 1;
    private static final int ZLIB_LEVEL = 6;

    private final Transport transport;
    private final String loginReject;
    private final long clientCountMax;
    private final long runForS;
    private final long refreshCountMin;
    private final long updateCountMin;
    private final boolean checkSequence;
    private final SinkCounts counts = new SinkCounts();
    private final List<SinkChannel> channels = new ArrayList<>();
    private final Error error = TransportFactory.createError();

    NiSinkTool(Arguments a) throws UsageError {
        transport = Transport.server(a, 14003);
        loginReject = a.text("login-reject", null);
        clientCountMax = a.number("end-after-clients", 0, 1, 1_000_000);
        runForS = a.number("run-for", 0, 1, 1_000_000);
        refreshCountMin = a.number("expect-refreshes", 0, 0, Long.MAX_VALUE);
        updateCountMin = a.number("expect-updates", 0, 0, Long.MAX_VALUE);
        checkSequence = a.has("check-seq");
    }

    static Map<String, Arguments.Kind> options() {
        Map<String, Arguments.Kind> options = Transport.serverOptions();
        for (String name : List.of("login-reject", "end-after-clients", "run-for", "expect-refreshes",
                "expect-updates")) {
            options.put(name, Arguments.Kind.VALUE);
        }
        options.put("check-seq", Arguments.Kind.FLAG);
        return options;
    }

    /** The exit status. */
    int run() {
        List<String> faults = new ArrayList<>();
        try {
            Server server = bind();
            Json.line("ready", "port", transport.port);
            serve(server);
            server.close(error);
        } catch (IOException | InterruptedException e) {
            faults.add(e.getMessage());
        }
        com.refinitiv.eta.transport.Transport.uninitialize();
        counts.judge(refreshCountMin, updateCountMin, checkSequence, faults);
        Json.lastLine("result", "status", faults.isEmpty() ? "OK" : "FAIL", "reasons", faults,
                "counts", counts.json());
        return faults.isEmpty() ? 0 : 1;
    }

    private Server bind() throws IOException {
        InitArgs init = TransportFactory.createInitArgs();
        init.globalLocking(false);
        if (com.refinitiv.eta.transport.Transport.initialize(init, error) != TransportReturnCodes.SUCCESS) {
            throw new IOException(error.text());
        }
        BindOptions options = TransportFactory.createBindOptions();
        options.serviceName(transport.port);
        options.majorVersion(Codec.majorVersion());
        options.minorVersion(Codec.minorVersion());
        options.protocolType(Codec.protocolType());
        options.pingTimeout((int) transport.pingTimeoutS);
        options.minPingTimeout(1);
        options.compressionType(transport.compression.equals("ZLib") ? CompressionTypes.ZLIB
                : transport.compression.equals("LZ4") ? CompressionTypes.LZ4 : CompressionTypes.NONE);
        options.compressionLevel(ZLIB_LEVEL);
        if (transport.isEncrypted) {
            options.connectionType(ConnectionTypes.ENCRYPTED);
            options.encryptionOptions().keystoreFile(transport.keyStore);
            options.encryptionOptions().keystorePasswd(transport.keyStorePassword);
            options.encryptionOptions().keystoreType(KeyStores.TYPE);
        }
        Server server = com.refinitiv.eta.transport.Transport.bind(options, error);
        if (server == null) {
            throw new IOException(error.text());
        }
        return server;
    }

    private void serve(Server server) throws InterruptedException {
        AcceptOptions options = TransportFactory.createAcceptOptions();
        long startNs = System.nanoTime();
        long goneCount = 0;
        while (runForS == 0 || System.nanoTime() - startNs < TimeUnit.SECONDS.toNanos(runForS)) {
            Channel channel = server.accept(options, error);
            if (channel != null) {
                channels.add(new SinkChannel(channel, counts, loginReject));
            }
            boolean wasBusy = false;
            for (SinkChannel each : channels) {
                wasBusy |= each.work();
            }
            goneCount += channels.stream().filter(SinkChannel::isGone).count();
            channels.removeIf(SinkChannel::isGone);
            if (clientCountMax > 0 && goneCount >= clientCountMax) {
                return;
            }
            if (!wasBusy) {
                Thread.sleep(PAUSE_MS);
            }
        }
    }
}
