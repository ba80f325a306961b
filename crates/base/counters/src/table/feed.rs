use crate::counters;

counters! {
    /// A feed handler and the replay that drives it.
    struct Feed("feed") {
        quotes: Total, "frames", "Quotes taken from the venue's stream.";
        trades: Total, "frames", "Trades taken from the venue's stream.";
        depth_diffs: Total, "frames", "Depth diffs taken from the venue's stream.";
        depth_snapshots: Total, "frames", "Depth snapshots taken from the venue's stream.";
        depth_gaps: Total, "gaps", "Depth diffs that did not follow: the book is suspect until the next snapshot.";
        frames_refused: Total, "frames", "Lines that are no frame of the venue, and frames that cannot be attributed or published.";
        position: Gauge, "ns", "How far into the recording the replay is.";
        lateness: Gauge, "ns", "How much later than planned the last frame was played.";
        rounds: Total, "rounds", "Times that the recording was played to its end.";
    }
}
