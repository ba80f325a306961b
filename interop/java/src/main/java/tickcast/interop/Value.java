package tickcast.interop;

import com.refinitiv.ema.access.Data;
import com.refinitiv.ema.access.DataType;
import com.refinitiv.ema.access.DataType.DataTypes;
import com.refinitiv.ema.access.OmmArray;
import com.refinitiv.ema.access.OmmArrayEntry;
import com.refinitiv.ema.access.OmmAscii;
import com.refinitiv.ema.access.OmmBuffer;
import com.refinitiv.ema.access.OmmDate;
import com.refinitiv.ema.access.OmmDateTime;
import com.refinitiv.ema.access.OmmDouble;
import com.refinitiv.ema.access.OmmEnum;
import com.refinitiv.ema.access.OmmError;
import com.refinitiv.ema.access.OmmFloat;
import com.refinitiv.ema.access.OmmInt;
import com.refinitiv.ema.access.OmmReal;
import com.refinitiv.ema.access.OmmRmtes;
import com.refinitiv.ema.access.OmmTime;
import com.refinitiv.ema.access.OmmUInt;
import com.refinitiv.ema.access.OmmUtf8;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * One value as it was on the wire, exact, kept apart from the library's buffers.
 *
 * <p>Few words of memory each: the JSON form (README.md, "Values") is made when it is printed.
 */
interface Value {
    int MAGNITUDE_WHOLE = 14;
    int MAGNITUDE_FRACTIONS = 22;
    int MAGNITUDE_FRACTIONS_END = 30;
    int MAGNITUDE_INFINITY = 33;
    int BLANK_MS = 65535;
    int BLANK_BELOW_MS = 2047;
    int BLANK_HMS = 255;

    /** The JSON form. */
    Map<String, Object> json();

    /** Whether the library could not make a value of the bytes. */
    default boolean isError() {
        return false;
    }

    /**
     * The value of a field, element or array item.
     *
     * @param display the text of an enumerated value from the dictionary, null if there is none
     */
    static Value of(Data data, String display) {
        if (data.code() == Data.DataCode.BLANK) {
            String type = name(data.dataType());
            return () -> Json.object("type", type, "blank", true);
        }
        switch (data.dataType()) {
            case DataTypes.INT: {
                long value = ((OmmInt) data).intValue();
                return () -> Json.object("type", "INT", "value", value);
            }
            case DataTypes.UINT:
                return uint((OmmUInt) data);
            case DataTypes.FLOAT: {
                float value = ((OmmFloat) data).floatValue();
                return () -> Json.object("type", "FLOAT", "text", Float.toString(value));
            }
            case DataTypes.DOUBLE: {
                double value = ((OmmDouble) data).doubleValue();
                return () -> Json.object("type", "DOUBLE", "text", Double.toString(value));
            }
            case DataTypes.REAL:
                return real(((OmmReal) data).mantissa(), ((OmmReal) data).magnitudeType());
            case DataTypes.ENUM: {
                int value = ((OmmEnum) data).enumValue();
                return () -> Json.object("type", "ENUM", "value", value, "display", display);
            }
            case DataTypes.DATE: {
                OmmDate d = (OmmDate) data;
                return date(d.year(), d.month(), d.day());
            }
            case DataTypes.TIME: {
                OmmTime t = (OmmTime) data;
                return time(t.hour(), t.minute(), t.second(),
                        nanoseconds(t.millisecond(), t.microsecond(), t.nanosecond()));
            }
            case DataTypes.DATETIME:
                return dateTime((OmmDateTime) data);
            case DataTypes.ASCII:
                return text("ASCII", ((OmmAscii) data).ascii());
            case DataTypes.UTF8:
                return text("UTF8", ((OmmUtf8) data).string());
            case DataTypes.RMTES:
                return rmtes((OmmRmtes) data);
            case DataTypes.BUFFER:
                return hex(((OmmBuffer) data).buffer());
            case DataTypes.ARRAY:
                return array((OmmArray) data);
            case DataTypes.ERROR:
                return new DecodeError(((OmmError) data).errorCodeAsString());
            default:
                return text(name(data.dataType()), data.toString());
        }
    }

    /** A value that the library could not decode, most often a field that is not in the dictionary. */
    final class DecodeError implements Value {
        private final String code;

        DecodeError(String code) {
            this.code = code;
        }

        @Override
        public Map<String, Object> json() {
            return Json.object("type", "ERROR", "code", code);
        }

        @Override
        public boolean isError() {
            return true;
        }
    }

    private static Value uint(OmmUInt data) {
        // Above 2^63 longValue throws.
        java.math.BigInteger big = data.bigIntegerValue();
        if (big.bitLength() > 63) {
            return () -> Json.object("type", "UINT", "value", big);
        }
        long value = big.longValue();
        return () -> Json.object("type", "UINT", "value", value);
    }

    private static Value real(long mantissa, int hint) {
        if (hint >= MAGNITUDE_INFINITY) {
            return () -> Json.object("type", "REAL", "hint", hint, "text", realText(0, hint));
        }
        return () -> Json.object("type", "REAL", "mantissa", mantissa, "hint", hint,
                "text", realText(mantissa, hint));
    }

    /** The exact decimal text, with the decimals that the hint says. */
    static String realText(long mantissa, int hint) {
        if (hint < MAGNITUDE_FRACTIONS) {
            return BigDecimal.valueOf(mantissa, MAGNITUDE_WHOLE - hint).toPlainString();
        }
        if (hint <= MAGNITUDE_FRACTIONS_END) {
            BigDecimal divisor = BigDecimal.valueOf(1L << (hint - MAGNITUDE_FRACTIONS));
            return BigDecimal.valueOf(mantissa).divide(divisor).toPlainString();
        }
        String[] texts = {"Infinity", "-Infinity", "NaN"};
        int special = hint - MAGNITUDE_INFINITY;
        return special < 0 || special >= texts.length ? "(hint " + hint + ")" : texts[special];
    }

    private static Value date(int year, int month, int day) {
        return () -> Json.object("type", "DATE", "year", year, "month", month, "day", day,
                "text", dateText(year, month, day));
    }

    private static Value time(int hour, int minute, int second, int nanoseconds) {
        return () -> {
            Map<String, Object> json = Json.object("type", "TIME");
            putTime(json, hour, minute, second, nanoseconds);
            json.put("text", timeText(hour, minute, second, nanoseconds));
            return json;
        };
    }

    private static Value dateTime(OmmDateTime data) {
        int year = data.year();
        int month = data.month();
        int day = data.day();
        int hour = data.hour();
        int minute = data.minute();
        int second = data.second();
        int nanoseconds = nanoseconds(data.millisecond(), data.microsecond(), data.nanosecond());
        return () -> {
            Map<String, Object> json =
                    Json.object("type", "DATETIME", "year", year, "month", month, "day", day);
            putTime(json, hour, minute, second, nanoseconds);
            json.put("text", dateText(year, month, day) + " " + timeText(hour, minute, second, nanoseconds));
            return json;
        };
    }

    private static void putTime(Map<String, Object> json, int hour, int minute, int second, int nanoseconds) {
        json.put("hour", orNull(hour, BLANK_HMS));
        json.put("minute", orNull(minute, BLANK_HMS));
        json.put("second", orNull(second, BLANK_HMS));
        json.put("nanosecond", orNull(nanoseconds, -1));
    }

    private static Integer orNull(int part, int blank) {
        return part == blank ? null : Integer.valueOf(part);
    }

    /** Nanoseconds of the second, -1 if the milliseconds are blank. */
    private static int nanoseconds(int ms, int us, int ns) {
        if (ms == BLANK_MS) {
            return -1;
        }
        return ms * 1_000_000 + (us == BLANK_BELOW_MS ? 0 : us * 1_000) + (ns == BLANK_BELOW_MS ? 0 : ns);
    }

    private static String dateText(int year, int month, int day) {
        return String.format(Locale.ROOT, "%04d-%02d-%02d", year, month, day);
    }

    private static String timeText(int hour, int minute, int second, int nanoseconds) {
        String text = String.format(Locale.ROOT, "%02d:%02d:%02d", hour, minute, second);
        return nanoseconds < 0 ? text : text + String.format(Locale.ROOT, ".%09d", nanoseconds);
    }

    private static Value text(String type, String text) {
        return () -> Json.object("type", type, "text", text);
    }

    private static Value rmtes(OmmRmtes data) {
        String text = data.rmtes().toString();
        boolean partial = movesTheCursor(data.asHex());
        return () -> Json.object("type", "RMTES", "text", text, "partial", partial ? true : null);
    }

    /** ESC [ begins a cursor movement: the value changes a part of the one before, which is not done here. */
    private static boolean movesTheCursor(ByteBuffer bytes) {
        for (int i = bytes.position(); i + 1 < bytes.limit(); i++) {
            if (bytes.get(i) == 0x1b && bytes.get(i + 1) == '[') {
                return true;
            }
        }
        return false;
    }

    private static Value hex(ByteBuffer bytes) {
        String hex = hexText(bytes);
        return () -> Json.object("type", "BUFFER", "hex", hex);
    }

    private static Value array(OmmArray array) {
        List<Value> items = new ArrayList<>();
        for (OmmArrayEntry item : array) {
            items.add(of(item.load(), null));
        }
        return () -> {
            List<Object> json = new ArrayList<>();
            items.forEach(item -> json.add(item.json()));
            return Json.object("type", "ARRAY", "items", json);
        };
    }

    /** Plain text where all bytes are printable ASCII, else `hex:` and the bytes. */
    static String keyText(ByteBuffer bytes) {
        ByteBuffer copy = bytes.duplicate();
        byte[] content = new byte[copy.remaining()];
        copy.get(content);
        for (byte b : content) {
            if (b < 0x20 || b > 0x7e) {
                return "hex:" + hexText(bytes);
            }
        }
        return new String(content, StandardCharsets.US_ASCII);
    }

    static String hexText(ByteBuffer bytes) {
        StringBuilder hex = new StringBuilder();
        for (int i = bytes.position(); i < bytes.limit(); i++) {
            hex.append(String.format("%02x", bytes.get(i) & 0xff));
        }
        return hex.toString();
    }

    static String name(int dataType) {
        return DataType.asString(dataType).toUpperCase(Locale.ROOT);
    }
}
