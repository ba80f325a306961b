package tickcast.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** The lines of standard input, read beside the tool's own work. */
final class Commands {
    static final String END = "end";
    /** In the order of their numbers, from 1 and from 0. */
    private static final List<String> STREAM_STATES =
            List.of("Open", "NonStreaming", "ClosedRecover", "Closed", "Redirected");
    private static final List<String> DATA_STATES = List.of("NoChange", "Ok", "Suspect");

    private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
    private final boolean endsWithInput;

    /** @param endsWithInput whether the end of the input is the command `end` */
    Commands(boolean endsWithInput) {
        this.endsWithInput = endsWithInput;
        Thread reader = new Thread(this::read, "commands");
        reader.setDaemon(true);
        reader.start();
    }

    /** The next line, null if there is none now. */
    String poll() {
        return lines.poll();
    }

    /** The next line, waited for. */
    String take() throws InterruptedException {
        return lines.take();
    }

    private void read() {
        InputStreamReader utf8 = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        try (BufferedReader input = new BufferedReader(utf8)) {
            for (String line = input.readLine(); line != null; line = input.readLine()) {
                lines.add(line);
            }
        } catch (IOException e) {
            System.err.println("commands: " + e);
        }
        if (endsWithInput) {
            lines.add(END);
        }
    }

    /** The state of words `STREAM DATA CODE-NUMBER TEXT...`, as in `Open Suspect 11 gap`. */
    static final class State {
        final int stream;
        final int data;
        final int code;
        final String text;

        State(List<String> words) throws UsageError {
            if (words.size() < 3) {
                throw new UsageError("a state is STREAM DATA CODE-NUMBER TEXT");
            }
            stream = STREAM_STATES.indexOf(words.get(0)) + 1;
            data = DATA_STATES.indexOf(words.get(1));
            if (stream == 0 || data < 0) {
                throw new UsageError("state " + words.get(0) + " " + words.get(1) + " is unknown");
            }
            code = (int) Arguments.number("status code", words.get(2), 0, 255);
            text = String.join(" ", words.subList(3, words.size()));
        }
    }
}
