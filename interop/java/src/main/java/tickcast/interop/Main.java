package tickcast.interop;

import java.util.Arrays;

/** Entry point: `TOOL [options]`. Exit status 0 ok, 1 a check failed, 2 wrong usage. */
public final class Main {
    private Main() {
    }

    public static void main(String[] words) {
        int status;
        try {
            status = run(words);
        } catch (UsageError e) {
            System.err.println("usage: " + e.getMessage());
            status = 2;
        }
        // The library leaves threads behind that would keep the process alive.
        System.exit(status);
    }

    private static int run(String[] words) throws UsageError {
        String tool = words.length == 0 ? "" : words[0];
        String[] rest = words.length == 0 ? words : Arrays.copyOfRange(words, 1, words.length);
        switch (tool) {
            case "consumer":
                return new ConsumerTool(ConsumerOptions.parse(rest)).run();
            case "crowd":
                return CrowdTool.run(rest);
            case "provider":
                return new ProviderTool(new Arguments(rest, ProviderTool.options())).run();
            case "iprovider":
                return new IProviderTool(new IProviderOptions(rest)).run();
            case "niprovider":
                return new NiProviderTool(new Arguments(rest, NiProviderTool.options())).run();
            case "nisink":
                return new NiSinkTool(new Arguments(rest, NiSinkTool.options())).run();
            case "timed-consumer":
                return new TimedConsumerTool(new Arguments(rest, TimedConsumerTool.options())).run();
            case "timed-provider":
                return new TimedProviderTool(new IProviderOptions(rest)).run();
            case "eta-codec":
                return new EtaCodecTool().run();
            default:
                throw new UsageError(
                        "java -jar tickcast-interop.jar consumer|crowd|provider|iprovider|niprovider|nisink|"
                                + "timed-consumer|timed-provider|eta-codec [options]: README.md");
        }
    }
}
