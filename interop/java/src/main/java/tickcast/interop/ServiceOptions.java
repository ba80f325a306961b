package tickcast.interop;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The one service of a provider and the dictionaries it goes by. */
final class ServiceOptions {
    private static final List<String> NAMES = List.of("service", "service-id", "capabilities",
            "field-dictionary", "enum-dictionary", "dictionary-part-bytes");

    final String name;
    final int id;
    /** Numbers of domains. */
    final String[] capabilities;
    final String fieldFile;
    final String enumFile;
    final long dictionaryPartBytes;

    ServiceOptions(Arguments a, String capabilitiesOtherwise) throws UsageError {
        name = a.text("service", "TEST");
        id = (int) a.number("service-id", 10, 2, 65535);
        capabilities = a.text("capabilities", capabilitiesOtherwise).split(",");
        fieldFile = a.text("field-dictionary", null);
        enumFile = a.text("enum-dictionary", null);
        if (fieldFile == null || enumFile == null) {
            throw new UsageError("--field-dictionary and --enum-dictionary are needed");
        }
        dictionaryPartBytes = a.number("dictionary-part-bytes", 65_536, 512, 65_536);
    }

    static Map<String, Arguments.Kind> options() {
        Map<String, Arguments.Kind> options = new LinkedHashMap<>();
        NAMES.forEach(name -> options.put(name, Arguments.Kind.VALUE));
        return options;
    }
}
