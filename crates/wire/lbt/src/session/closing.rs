//! The end of a session as its driver sees it: what still waits, how long receivers may yet ask, and what is
//! given up where there is no more time.
//!
//! [`Source::end`] says the last number of each topic and the end of the session. The driver then goes on
//! until all was sent and nobody has asked for a while. Where it cannot wait so long, [`Source::abandon`]
//! drops what was not sent and says the end at once: each receiver reports what it lacks as loss
//! (`tests/closing.rs`).

/// What a session has taken and not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unsent {
    /// Messages of the application; fragments count singly.
    pub messages: u64,
    /// Bytes of their datagrams.
    pub bytes: u64,
}
