package tickcast.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * What ETA's codec costs, told round by round on standard input so that something else can take turns with it:
 * `type FID NUMBER`, `case NAME HEX...`, `round NAME COUNT`.
 */
final class EtaCodecTool {
    private final EtaCodec codec = new EtaCodec();
    private final Map<String, List<ByteBuffer>> cases = new LinkedHashMap<>();

    int run() {
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                command(line.split(" "));
            }
            return 0;
        } catch (IOException | RuntimeException e) {
            Json.line("error", "text", e.toString());
            return 1;
        }
    }

    private void command(String[] words) {
        switch (words[0]) {
            case "type":
                codec.type(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                break;
            case "case":
                cases.put(words[1], messages(words));
                break;
            case "round":
                round(words[1], Integer.parseInt(words[2]));
                break;
            default:
                throw new IllegalArgumentException("no command " + words[0]);
        }
    }

    private static List<ByteBuffer> messages(String[] words) {
        List<ByteBuffer> messages = new ArrayList<>();
        for (int i = 2; i < words.length; i++) {
            byte[] bytes = new byte[words[i].length() / 2];
            for (int at = 0; at < bytes.length; at++) {
                bytes[at] = (byte) Integer.parseInt(words[i].substring(2 * at, 2 * at + 2), 16);
            }
            messages.add(ByteBuffer.wrap(bytes));
        }
        return messages;
    }

    /** Decodes all messages of a case so many times, then decodes and encodes them as often. */
    private void round(String name, int count) {
        List<ByteBuffer> messages = cases.get(name);
        long sum = 0;
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            for (ByteBuffer message : messages) {
                sum += codec.decode(message);
            }
        }
        long between = System.nanoTime();
        long copiedSum = 0;
        for (int i = 0; i < count; i++) {
            for (ByteBuffer message : messages) {
                copiedSum += codec.copy(message);
            }
        }
        long end = System.nanoTime();
        double each = (double) count * messages.size();
        Json.line("round", "name", name, "decode_ns", (between - start) / each, "copy_ns", (end - between) / each,
                "sum", Long.toUnsignedString(sum), "copied_sum", Long.toUnsignedString(copiedSum),
                "copied", hex(codec.copied()));
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder(2 * bytes.length);
        for (byte b : bytes) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }
}
