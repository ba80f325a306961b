package tickcast.interop;

import com.refinitiv.ema.access.ElementList;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.Map;
import com.refinitiv.ema.access.MapEntry;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.Series;

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
    private static final String SERVER = "Server";
    private static final String DICTIONARY = "Dictionary";
    private static final String DIRECTORY = "Directory";
    private static final String FIELD_ITEM = "RWFFld";
    private static final String ENUM_ITEM = "RWFEnum";

    private final Map groups = EmaFactory.createMap();

    private EmaSettings() {
    }

    /** A consumer of one server that downloads its dictionaries and reconnects for ever. */
    static Map consumer(String host, String port, long loginTimeoutMs, String compression) {
        EmaSettings s = new EmaSettings();
        ElementList consumer = list();
        text(consumer, "Channel", CHANNEL);
        text(consumer, "Dictionary", DICTIONARY);
        number(consumer, "LoginRequestTimeOut", loginTimeoutMs);
        number(consumer, "DirectoryRequestTimeOut", loginTimeoutMs);
        number(consumer, "DictionaryRequestTimeOut", loginTimeoutMs);
        number(consumer, "ReconnectAttemptLimit", -1);
        number(consumer, "ReconnectMinDelay", 100);
        number(consumer, "ReconnectMaxDelay", 500);
        s.group("ConsumerGroup", "DefaultConsumer", "ConsumerList", CONSUMER, consumer);
        ElementList channel = list();
        text(channel, "ChannelType", "ChannelType::RSSL_SOCKET");
        text(channel, "CompressionType", "CompressionType::" + compression);
        text(channel, "Host", host);
        text(channel, "Port", port);
        number(channel, "TcpNodelay", 1);
        s.group("ChannelGroup", null, "ChannelList", CHANNEL, channel);
        ElementList dictionary = list();
        text(dictionary, "DictionaryType", "DictionaryType::ChannelDictionary");
        s.group("DictionaryGroup", null, "DictionaryList", DICTIONARY, dictionary);
        return s.groups;
    }

    /** An interactive provider of one service; the directory and dictionaries are answered by the library. */
    static Map provider(String port, String service, int serviceId, String fieldFile, String enumFile,
            long dictionaryPartBytes) {
        EmaSettings s = new EmaSettings();
        ElementList provider = list();
        text(provider, "Server", SERVER);
        text(provider, "Directory", DIRECTORY);
        number(provider, "RefreshFirstRequired", 0);
        number(provider, "FieldDictionaryFragmentSize", dictionaryPartBytes);
        number(provider, "EnumTypeFragmentSize", dictionaryPartBytes);
        s.group("IProviderGroup", "DefaultIProvider", "IProviderList", PROVIDER, provider);
        ElementList server = list();
        text(server, "ServerType", "ServerType::RSSL_SOCKET");
        text(server, "Port", port);
        number(server, "TcpNodelay", 1);
        s.group("ServerGroup", null, "ServerList", SERVER, server);
        ElementList dictionary = list();
        text(dictionary, "DictionaryType", "DictionaryType::FileDictionary");
        text(dictionary, "RdmFieldDictionaryFileName", fieldFile);
        text(dictionary, "EnumTypeDefFileName", enumFile);
        text(dictionary, "RdmFieldDictionaryItemName", FIELD_ITEM);
        text(dictionary, "EnumTypeDefItemName", ENUM_ITEM);
        s.group("DictionaryGroup", null, "DictionaryList", DICTIONARY, dictionary);
        s.directory(service, serviceId);
        return s.groups;
    }

    private void directory(String service, int serviceId) {
        ElementList filters = list();
        filters.add(EmaFactory.createElementEntry().elementList("InfoFilter", info(serviceId)));
        ElementList state = list();
        number(state, "ServiceState", 1);
        number(state, "AcceptingRequests", 1);
        filters.add(EmaFactory.createElementEntry().elementList("StateFilter", state));
        Map services = EmaFactory.createMap();
        services.add(EmaFactory.createMapEntry().keyAscii(service, MapEntry.MapAction.ADD, filters));
        Map directories = EmaFactory.createMap();
        directories.add(EmaFactory.createMapEntry().keyAscii(DIRECTORY, MapEntry.MapAction.ADD, services));
        ElementList group = list();
        text(group, "DefaultDirectory", DIRECTORY);
        group.add(EmaFactory.createElementEntry().map("DirectoryList", directories));
        groups.add(EmaFactory.createMapEntry().keyAscii("DirectoryGroup", MapEntry.MapAction.ADD, group));
    }

    private static ElementList info(int serviceId) {
        ElementList info = list();
        number(info, "ServiceId", serviceId);
        text(info, "Vendor", "Tickcast");
        number(info, "IsSource", 1);
        number(info, "AcceptingConsumerStatus", 1);
        number(info, "SupportsQoSRange", 0);
        number(info, "SupportsOutOfBandSnapshots", 1);
        info.add(EmaFactory.createElementEntry().array("Capabilities", texts("5", "6", "7", "8")));
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
        ElementList content = list();
        if (defaultKey != null) {
            text(content, defaultKey, name);
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
