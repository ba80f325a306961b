//! What a session that is received is called.

/// A session that is received: its transport and its place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SessionRef {
    Rm(usize),
    Tcp(usize),
    Ipc(usize),
    Ru(usize),
}
