package tickcast.interop;

/** How many rounds of updates are due at a rate. */
final class Pace {
    /** Rounds that are made up for in one go after a delay. */
    private static final long CATCH_UP_MAX = 1_000;

    private long perSecond;
    private long sinceNs;
    private long doneCount;

    Pace(long perSecond) {
        set(perSecond);
    }

    void set(long perSecond) {
        this.perSecond = perSecond;
        restart();
    }

    /** Nothing is due from before. */
    void restart() {
        sinceNs = System.nanoTime();
        doneCount = 0;
    }

    /** Rounds since the last call; those are taken as done. */
    long due() {
        long due = (System.nanoTime() - sinceNs) / 1_000_000L * perSecond / 1_000L - doneCount;
        doneCount += due;
        return Math.min(due, CATCH_UP_MAX);
    }
}
