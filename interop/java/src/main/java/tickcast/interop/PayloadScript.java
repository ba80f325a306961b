package tickcast.interop;

import com.refinitiv.ema.access.ComplexType;
import com.refinitiv.ema.access.EmaFactory;
import com.refinitiv.ema.access.FieldEntry;
import com.refinitiv.ema.access.FieldList;
import com.refinitiv.ema.access.MapEntry.MapAction;
import com.refinitiv.ema.access.OmmArray;
import java.math.BigInteger;
import java.net.URLDecoder;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.List;

/**
 * Payloads as words of a script.
 *
 * <p>Field: `FID=TYPE:VALUE`, an empty VALUE is blank; parts of a VALUE are separated by colons, text is
 * URL-encoded. Field list: fields. Map: `summary` and fields, then entries, each `+KEY` (add) or `*KEY`
 * (update) with its fields, or `-KEY` (delete). KEY is the text of a buffer.
 */
final class PayloadScript {
    private static final String SUMMARY = "summary";

    private PayloadScript() {
    }

    static ComplexType parse(List<String> words) throws UsageError {
        return !words.isEmpty() && isMapHead(words.get(0)) ? map(words) : fields(words);
    }

    /** Negative field ids begin with a minus too, but have an equals sign. */
    private static boolean isMapHead(String word) {
        return word.equals(SUMMARY) || "+*-".indexOf(word.charAt(0)) >= 0 && word.indexOf('=') < 0;
    }

    private static ComplexType map(List<String> words) throws UsageError {
        com.refinitiv.ema.access.Map map = EmaFactory.createMap();
        int next = 0;
        while (next < words.size()) {
            String head = words.get(next);
            int end = next + 1;
            while (end < words.size() && words.get(end).indexOf('=') > 0) {
                end++;
            }
            List<String> fields = words.subList(next + 1, end);
            if (head.equals(SUMMARY)) {
                map.summaryData(fields(fields));
            } else {
                entry(map, head, fields);
            }
            next = end;
        }
        return map;
    }

    private static void entry(com.refinitiv.ema.access.Map map, String head, List<String> fields)
            throws UsageError {
        ByteBuffer key = bytes(head.substring(1));
        switch (head.charAt(0)) {
            case '+':
                map.add(EmaFactory.createMapEntry().keyBuffer(key, MapAction.ADD, fields(fields)));
                break;
            case '*':
                map.add(EmaFactory.createMapEntry().keyBuffer(key, MapAction.UPDATE, fields(fields)));
                break;
            case '-':
                map.add(EmaFactory.createMapEntry().keyBuffer(key, MapAction.DELETE, fields(fields)));
                break;
            default:
                throw new UsageError(head + " is no map entry");
        }
    }

    private static FieldList fields(List<String> words) throws UsageError {
        FieldList list = EmaFactory.createFieldList();
        for (String word : words) {
            int equals = word.indexOf('=');
            int colon = word.indexOf(':', equals);
            if (equals <= 0 || colon < 0) {
                throw new UsageError(word + " is not FID=TYPE:VALUE");
            }
            try {
                int id = Integer.parseInt(word.substring(0, equals));
                list.add(field(id, word.substring(equals + 1, colon), word.substring(colon + 1)));
            } catch (NumberFormatException | ArrayIndexOutOfBoundsException e) {
                throw new UsageError(word + ": " + e.getMessage());
            }
        }
        return list;
    }

    private static FieldEntry field(int id, String type, String value) throws UsageError {
        FieldEntry entry = EmaFactory.createFieldEntry();
        if (value.isEmpty()) {
            return blank(entry, id, type);
        }
        String[] parts = value.split(":");
        switch (type) {
            case "INT":
                return entry.intValue(id, Long.parseLong(value));
            case "UINT":
                return entry.uintValue(id, new BigInteger(value));
            case "REAL":
                return entry.real(id, Long.parseLong(parts[0]), Integer.parseInt(parts[1]));
            case "FLOAT":
                return entry.floatValue(id, Float.parseFloat(value));
            case "DOUBLE":
                return entry.doubleValue(id, Double.parseDouble(value));
            case "ENUM":
                return entry.enumValue(id, Integer.parseInt(value));
            case "DATE":
                return entry.date(id, number(parts, 0), number(parts, 1), number(parts, 2));
            case "TIME":
                return time(entry, id, parts);
            case "DATETIME":
                return entry.dateTime(id, number(parts, 0), number(parts, 1), number(parts, 2),
                        number(parts, 3), number(parts, 4), number(parts, 5),
                        number(parts, 6), number(parts, 7), number(parts, 8));
            case "ASCII":
                return entry.ascii(id, text(value));
            case "UTF8":
                return entry.utf8(id, bytes(value));
            case "RMTES":
                return entry.rmtes(id, bytes(value));
            case "BUFFER":
                return entry.buffer(id, bytes(value));
            case "ARRAY":
                return entry.array(id, array(parts));
            default:
                throw new UsageError("type " + type + " is unknown");
        }
    }

    private static FieldEntry time(FieldEntry entry, int id, String[] parts) {
        if (parts.length == 3) {
            return entry.time(id, number(parts, 0), number(parts, 1), number(parts, 2));
        }
        return entry.time(id, number(parts, 0), number(parts, 1), number(parts, 2),
                number(parts, 3), number(parts, 4), number(parts, 5));
    }

    private static FieldEntry blank(FieldEntry entry, int id, String type) throws UsageError {
        switch (type) {
            case "INT":
                return entry.codeInt(id);
            case "UINT":
                return entry.codeUInt(id);
            case "REAL":
                return entry.codeReal(id);
            case "ENUM":
                return entry.codeEnum(id);
            case "DATE":
                return entry.codeDate(id);
            case "TIME":
                return entry.codeTime(id);
            case "RMTES":
                return entry.codeRmtes(id);
            default:
                throw new UsageError("type " + type + " has no blank here");
        }
    }

    private static OmmArray array(String[] parts) {
        OmmArray array = EmaFactory.createOmmArray();
        for (String part : parts) {
            array.add(EmaFactory.createOmmArrayEntry().uintValue(Long.parseLong(part)));
        }
        return array;
    }

    private static int number(String[] parts, int index) {
        return Integer.parseInt(parts[index]);
    }

    private static String text(String encoded) {
        return URLDecoder.decode(encoded, StandardCharsets.UTF_8);
    }

    /** URL decoding to bytes: %1b is the byte 0x1b, other characters their UTF-8. */
    private static ByteBuffer bytes(String encoded) {
        return ByteBuffer.wrap(URLDecoder.decode(encoded, StandardCharsets.ISO_8859_1)
                .getBytes(StandardCharsets.ISO_8859_1));
    }
}
