package tickcast.interop;

/** The command line, or a command of a script, is not what the tool understands. */
final class UsageError extends Exception {
    private static final long serialVersionUID = 1;

    UsageError(String text) {
        super(text);
    }
}
