package tickcast.interop;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmConsumerConfig;
import com.refinitiv.ema.access.OmmIProviderConfig;
import com.refinitiv.ema.access.OmmNiProviderConfig;
import com.refinitiv.ema.access.Series;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.LinkedHashMap;
import java.util.concurrent.TimeUnit;

/**
 * The library's configuration, made in the program so that no EmaConfig.xml takes part.
 *
 * <p>Shape: a map of groups; a group is an element list {default name, list: map {name: settings}}, where
 * settings are an element list.
 */
final class EmaSettings {
    static final String CONSUMER = "Consumer";
    static final String PROVIDER = "Provider";
    private static final String CHANNEL = "Channel";
    private static final String STANDBY = "Standby";
    private static final String NEXT = "Next";
    private static final String SERVER = "Server";
    private static final String DICTIONARY = "Dictionary";
    private static final String DIRECTORY = "Directory";
    private static final String FIELD_ITEM = "RWFFld";
    private static final String ENUM_ITEM = "RWFEnum";

    private static final long DISPATCH_MAX = 1_000_000;

    private final Map groups = EmaFactory.createMap();

    private EmaSettings() {
    }

    /** A consumer of one server that downloads its dictionaries and reconnects for ever. */
    static Map consumer(ConsumerOptions o) {
        EmaSettings s = new EmaSettings();
        long timeoutMs = TimeUnit.SECONDS.toMillis(o.timeoutS);
        ElementList consumer = list();
        if (o.standby != null) {
            text(consumer, "WarmStandbyChannelSet", STANDBY);
        } else if (o.nextHost != null) {
            text(consumer, "ChannelSet", CHANNEL + "," + NEXT);
        } else {
            text(consumer, "Channel", CHANNEL);
        }
        text(consumer, "Dictionary", DICTIONARY);
        number(consumer, "LoginRequestTimeOut", timeoutMs);
        number(consumer, "DirectoryRequestTimeOut", timeoutMs);
        number(consumer, "DictionaryRequestTimeOut", timeoutMs);
        number(consumer, "MsgKeyInUpdates", o.keyInUpdates ? 1 : 0);
        // What the library has read beyond this number waits for the next bytes of the socket, be there any or not.
        number(consumer, "MaxDispatchCountUserThread", DISPATCH_MAX);
        consumer.add(EmaFactory.createElementEntry().uintValue("EnableRtt", o.roundTrips ? 1 : 0));
        reconnecting(consumer);
        s.group("ConsumerGroup", "DefaultConsumer", "ConsumerList", CONSUMER, consumer);
        if (o.standby != null) {
            s.warmStandby(o);
        } else if (o.nextHost != null) {
            s.channelSet(o);
        } else {
            s.channel(o.transport);
        }
        ElementList dictionary = list();
        text(dictionary, "DictionaryType", "DictionaryType::ChannelDictionary");
        s.group("DictionaryGroup", null, "DictionaryList", DICTIONARY, dictionary);
        return s.groups;
    }

    /** The trust, and the own certificate, of a client. */
    static void encrypt(OmmConsumerConfig config, Transport t) {
        if (!t.isEncrypted) {
            return;
        }
        config.tunnelingSecurityProtocol("TLS");
        if (t.keyStore != null) {
            config.tunnelingKeyStoreFile(t.keyStore).tunnelingKeyStorePasswd(t.keyStorePassword)
                    .tunnelingKeyStoreType(KeyStores.TYPE);
        }
        if (t.tlsVersions.length > 0) {
            config.tunnelingSecurityProtocolVersions(t.tlsVersions);
        }
    }

    /** The same of a provider that connects. */
    static void encrypt(OmmNiProviderConfig config, Transport t) {
        if (!t.isEncrypted) {
            return;
        }
        config.tunnelingSecurityProtocol("TLS");
        if (t.keyStore != null) {
            config.tunnelingKeyStoreFile(t.keyStore).tunnelingKeyStorePasswd(t.keyStorePassword)
                    .tunnelingKeyStoreType(KeyStores.TYPE);
        }
        if (t.tlsVersions.length > 0) {
            config.tunnelingSecurityProtocolVersions(t.tlsVersions);
        }
    }

    /** The configuration of an interactive provider, ready to use. */
    static OmmIProviderConfig interactiveConfig(Transport t, ServiceOptions service) throws UsageError {
        OmmIProviderConfig config = t.isEncrypted
                ? EmaFactory.createOmmIProviderConfig(encryptedServerFile(t))
                : EmaFactory.createOmmIProviderConfig();
        config.config(interactiveProvider(t, service)).providerName(PROVIDER)
                .operationModel(OmmIProviderConfig.OperationModel.USER_DISPATCH);
        if (t.isEncrypted) {
            config.keystoreFile(t.keyStore).keystorePasswd(t.keyStorePassword).keystoreType(KeyStores.TYPE);
        }
        return config;
    }

    /** An interactive provider of one service; the directory and dictionaries are answered by the library. */
    private static Map interactiveProvider(Transport transport, ServiceOptions service) {
        EmaSettings s = new EmaSettings();
        ElementList provider = list();
        text(provider, "Directory", DIRECTORY);
        number(provider, "RefreshFirstRequired", 0);
        number(provider, "FieldDictionaryFragmentSize", service.dictionaryPartBytes);
        number(provider, "EnumTypeFragmentSize", service.dictionaryPartBytes);
        if (!transport.isEncrypted) {
            text(provider, "Server", SERVER);
        }
        s.group("IProviderGroup", "DefaultIProvider", "IProviderList", PROVIDER, provider);
        if (!transport.isEncrypted) {
            ElementList server = list();
            serverSettings(transport).forEach((name, value) -> {
                if (value instanceof Long) {
                    number(server, name, (Long) value);
                } else {
                    text(server, name, value.toString());
                }
            });
            s.group("ServerGroup", null, "ServerList", SERVER, server);
        }
        s.fileDictionary(service);
        s.directory(service);
        return s.groups;
    }

    /**
     * Path of a configuration file with the server's settings, for an encrypted one: a key store given to a
     * server that is configured in the program is not used.
     */
    private static String encryptedServerFile(Transport transport) throws UsageError {
        StringBuilder server = new StringBuilder();
        serverSettings(transport).forEach((name, value) ->
                server.append("<").append(name).append(" value=\"").append(value).append("\"/>"));
        String text = "<EmaConfig><IProviderGroup><DefaultIProvider value=\"" + PROVIDER + "\"/>"
                + "<IProviderList><IProvider><Name value=\"" + PROVIDER + "\"/>"
                + "<Server value=\"" + SERVER + "\"/></IProvider></IProviderList></IProviderGroup>"
                + "<ServerGroup><ServerList><Server><Name value=\"" + SERVER
                + "\"/>" + server + "</Server></ServerList></ServerGroup></EmaConfig>";
        try {
            File file = File.createTempFile("tickcast", ".xml");
            file.deleteOnExit();
            Files.write(file.toPath(), text.getBytes(StandardCharsets.UTF_8));
            return file.getPath();
        } catch (IOException e) {
            throw new UsageError("no file for the settings: " + e);
        }
    }

    /** A provider that connects to a server and publishes one service. */
    static Map nonInteractiveProvider(Transport transport, ServiceOptions service, long loginTimeoutMs) {
        EmaSettings s = new EmaSettings();
        ElementList provider = list();
        text(provider, "Channel", CHANNEL);
        text(provider, "Directory", DIRECTORY);
        number(provider, "RefreshFirstRequired", 1);
        number(provider, "MergeSourceDirectoryStreams", 1);
        number(provider, "LoginRequestTimeOut", loginTimeoutMs);
        reconnecting(provider);
        s.group("NiProviderGroup", "DefaultNiProvider", "NiProviderList", PROVIDER, provider);
        s.channel(transport);
        s.fileDictionary(service);
        s.directory(service);
        return s.groups;
    }

    private static void reconnecting(ElementList settings) {
        number(settings, "ReconnectAttemptLimit", -1);
        number(settings, "ReconnectMinDelay", 100);
        number(settings, "ReconnectMaxDelay", 500);
    }

    private void channel(Transport t) {
        group("ChannelGroup", null, "ChannelList", CHANNEL, channelSettings(t, t.host, t.port));
    }

    /** Servers that are tried in turn. */
    private void channelSet(ConsumerOptions o) {
        Map channels = EmaFactory.createMap();
        String[][] ends = {{CHANNEL, o.transport.host, o.transport.port}, {NEXT, o.nextHost[0], o.nextHost[1]}};
        for (String[] end : ends) {
            ElementList channel = channelSettings(o.transport, end[1], end[2]);
            channels.add(EmaFactory.createMapEntry().keyAscii(end[0], MapEntry.MapAction.ADD, channel));
        }
        group("ChannelGroup", null, "ChannelList", channels);
    }

    /** Two servers for the same data: the one of `--host` is the active one at first. */
    private void warmStandby(ConsumerOptions o) {
        ElementList both = list();
        text(both, "StartingActiveServer", CHANNEL);
        text(both, "StandbyServerSet", STANDBY);
        both.add(EmaFactory.createElementEntry().enumValue("WarmStandbyMode", o.isStandbyByService ? 2 : 1));
        group("WarmStandbyGroup", null, "WarmStandbyList", STANDBY, both);
        Map servers = EmaFactory.createMap();
        Map channels = EmaFactory.createMap();
        String[][] ends = {{CHANNEL, o.transport.host, o.transport.port}, {STANDBY, o.standby[0], o.standby[1]}};
        for (String[] end : ends) {
            ElementList server = list();
            text(server, "Channel", end[0]);
            servers.add(EmaFactory.createMapEntry().keyAscii(end[0], MapEntry.MapAction.ADD, server));
            ElementList channel = channelSettings(o.transport, end[1], end[2]);
            channels.add(EmaFactory.createMapEntry().keyAscii(end[0], MapEntry.MapAction.ADD, channel));
        }
        group("WarmStandbyServerInfoGroup", null, "WarmStandbyServerInfoList", servers);
        group("ChannelGroup", null, "ChannelList", channels);
    }

    private static ElementList channelSettings(Transport t, String host, String port) {
        ElementList channel = list();
        String plain = t.webSocketProtocols == null ? "RSSL_SOCKET" : "RSSL_WEBSOCKET";
        text(channel, "ChannelType", "ChannelType::" + (t.isEncrypted ? "RSSL_ENCRYPTED" : plain));
        if (t.isEncrypted) {
            text(channel, "EncryptedProtocolType", "EncryptedProtocolType::" + plain);
        }
        if (t.webSocketProtocols != null) {
            text(channel, "WsProtocols", t.webSocketProtocols);
        }
        text(channel, "CompressionType", "CompressionType::" + t.compression);
        if (t.compressionThresholdBytes >= 0) {
            number(channel, "CompressionThreshold", t.compressionThresholdBytes);
        }
        text(channel, "Host", host);
        text(channel, "Port", port);
        number(channel, "TcpNodelay", 1);
        number(channel, "ConnectionPingTimeout", TimeUnit.SECONDS.toMillis(t.pingTimeoutS));
        return channel;
    }

    private static java.util.Map<String, Object> serverSettings(Transport t) {
        java.util.Map<String, Object> settings = new LinkedHashMap<>();
        settings.put("ServerType", "ServerType::" + (t.isEncrypted ? "RSSL_ENCRYPTED" : "RSSL_SOCKET"));
        settings.put("Port", t.port);
        settings.put("TcpNodelay", 1L);
        settings.put("CompressionType", "CompressionType::" + t.compression);
        if (t.compressionThresholdBytes >= 0) {
            settings.put("CompressionThreshold", t.compressionThresholdBytes);
        }
        settings.put("ConnectionPingTimeout", TimeUnit.SECONDS.toMillis(t.pingTimeoutS));
        settings.put("ConnectionMinPingTimeout", TimeUnit.SECONDS.toMillis(Math.min(t.pingTimeoutS, 20)));
        if (t.webSocketProtocols != null) {
            settings.put("WsProtocols", t.webSocketProtocols);
        }
        return settings;
    }

    private void fileDictionary(ServiceOptions service) {
        ElementList dictionary = list();
        text(dictionary, "DictionaryType", "DictionaryType::FileDictionary");
        text(dictionary, "RdmFieldDictionaryFileName", service.fieldFile);
        text(dictionary, "EnumTypeDefFileName", service.enumFile);
        text(dictionary, "RdmFieldDictionaryItemName", FIELD_ITEM);
        text(dictionary, "EnumTypeDefItemName", ENUM_ITEM);
        group("DictionaryGroup", null, "DictionaryList", DICTIONARY, dictionary);
    }

    private void directory(ServiceOptions service) {
        ElementList filters = list();
        filters.add(EmaFactory.createElementEntry().elementList("InfoFilter", info(service)));
        ElementList state = list();
        number(state, "ServiceState", 1);
        number(state, "AcceptingRequests", 1);
        filters.add(EmaFactory.createElementEntry().elementList("StateFilter", state));
        Map services = EmaFactory.createMap();
        services.add(EmaFactory.createMapEntry().keyAscii(service.name, MapEntry.MapAction.ADD, filters));
        Map directories = EmaFactory.createMap();
        directories.add(EmaFactory.createMapEntry().keyAscii(DIRECTORY, MapEntry.MapAction.ADD, services));
        ElementList group = list();
        text(group, "DefaultDirectory", DIRECTORY);
        group.add(EmaFactory.createElementEntry().map("DirectoryList", directories));
        groups.add(EmaFactory.createMapEntry().keyAscii("DirectoryGroup", MapEntry.MapAction.ADD, group));
    }

    private static ElementList info(ServiceOptions service) {
        ElementList info = list();
        number(info, "ServiceId", service.id);
        text(info, "Vendor", "Tickcast");
        number(info, "IsSource", 1);
        number(info, "AcceptingConsumerStatus", 1);
        number(info, "SupportsQoSRange", 0);
        number(info, "SupportsOutOfBandSnapshots", 1);
        info.add(EmaFactory.createElementEntry().array("Capabilities", texts(service.capabilities)));
        info.add(EmaFactory.createElementEntry().array("DictionariesProvided", texts(DICTIONARY)));
        info.add(EmaFactory.createElementEntry().array("DictionariesUsed", texts(DICTIONARY)));
        ElementList qos = list();
        text(qos, "Timeliness", "Timeliness::RealTime");
        text(qos, "Rate", "Rate::TickByTick");
        Series all = EmaFactory.createSeries();
        all.add(EmaFactory.createSeriesEntry().elementList(qos));
        info.add(EmaFactory.createElementEntry().series("QoS", all));
        return info;
    }

    private void group(String group, String defaultKey, String listKey, String name, ElementList settings) {
        Map named = EmaFactory.createMap();
        named.add(EmaFactory.createMapEntry().keyAscii(name, MapEntry.MapAction.ADD, settings));
        group(group, defaultKey == null ? null : new String[] {defaultKey, name}, listKey, named);
    }

    private void group(String group, String[] choice, String listKey, Map named) {
        ElementList content = list();
        if (choice != null) {
            text(content, choice[0], choice[1]);
        }
        content.add(EmaFactory.createElementEntry().map(listKey, named));
        groups.add(EmaFactory.createMapEntry().keyAscii(group, MapEntry.MapAction.ADD, content));
    }

    private static ElementList list() {
        return EmaFactory.createElementList();
    }

    private static void text(ElementList list, String name, String value) {
        list.add(EmaFactory.createElementEntry().ascii(name, value));
    }

    private static void number(ElementList list, String name, long value) {
        list.add(EmaFactory.createElementEntry().intValue(name, value));
    }

    private static OmmArray texts(String... values) {
        OmmArray array = EmaFactory.createOmmArray();
        for (String value : values) {
            array.add(EmaFactory.createOmmArrayEntry().ascii(value));
        }
        return array;
    }
}
