//! Rules that a test leaves out, one at a time, to see whether its simulator notices.
//!
//! Only with the feature `planted-bugs`, which no program is built with: without it [`planted`] is false when it is
//! compiled, and nothing of this is left.

/// Which rule is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// LBT: a number is NAKed once, and not again.
    NaksOnce,
    /// LBT: the first number of a NAK is not answered.
    ForgetsFirstNak,
    /// LBT: what is missing is given up as soon as it is looked at.
    GivesUpAtOnce,
    /// LBT: a session whose source is silent is never over.
    NeverOver,
    /// LBMC over streams of bytes: the begin of a message is dropped when the rest has not come.
    DropsBegunMessages,
    /// P2PS: items that a gap concerns stay good.
    GapUnsaid,
    /// P2PS: an image that is older than the messages dropped before it is taken.
    TakesStaleImages,
    /// P2PS: messages that were held until the image came are dropped.
    DropsHeld,
    /// P2PS: an item that nobody watches is given up while its image is on its way.
    GivesUpTooSoon,
    /// P2PS: an image from before the item was opened anew is kept.
    TakesOldAnswers,
    /// P2PS: a stream that was not sent an update is not noted.
    ForgetsConflated,
    /// P2PS: updates that were delivered are counted twice.
    CountsTwice,
    /// P2PS without a cache: a recalled image that lacks something is taken.
    TakesOldRecalls,
    /// P2PS without a cache: what was kept while an image was recalled is dropped.
    DropsKept,
    /// Relay: a shard that leaves an item takes all shards with it.
    ForgetsShards,
    /// Source distributor: the answer about a gap lacks the last item.
    ShortGapAnswers,
    /// Source distributor: an image is said to be newer than it is.
    ImagesTooNew,
    /// Source distributor: items stay good when their provider is gone.
    ProviderLossUnsaid,
    /// Point of presence: items are not asked for again when the upstream server is back.
    UpstreamLossUnsaid,
    /// RSSL: the begin of a frame's header is dropped when the rest has not come.
    DropsCutHeaders,
    /// RSSL: a further fragment is taken twice.
    FragmentsTwice,
    /// WebSocket: the mask begins anew where a payload was cut.
    MaskBeginsAnew,
    /// WebSocket: the begin of a frame's head is dropped when the rest has not come.
    DropsCutHeads,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 23] = [
        Bug::NaksOnce,
        Bug::ForgetsFirstNak,
        Bug::GivesUpAtOnce,
        Bug::NeverOver,
        Bug::DropsBegunMessages,
        Bug::GapUnsaid,
        Bug::TakesStaleImages,
        Bug::DropsHeld,
        Bug::GivesUpTooSoon,
        Bug::TakesOldAnswers,
        Bug::ForgetsConflated,
        Bug::CountsTwice,
        Bug::TakesOldRecalls,
        Bug::DropsKept,
        Bug::ForgetsShards,
        Bug::ShortGapAnswers,
        Bug::ImagesTooNew,
        Bug::ProviderLossUnsaid,
        Bug::UpstreamLossUnsaid,
        Bug::DropsCutHeaders,
        Bug::FragmentsTwice,
        Bug::MaskBeginsAnew,
        Bug::DropsCutHeads,
    ];
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// From now on this rule is left out on this thread, or none.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether a rule is left out.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Whether a rule is left out: never in what is given away.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
#[must_use]
pub const fn planted(_: Bug) -> bool {
    false
}

/// Whether this was compiled with the feature: what is given away asserts that it was not.
pub const CAN_BE_PLANTED: bool = cfg!(feature = "planted-bugs");
