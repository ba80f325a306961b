//! Tests of the crate as a whole: recorded sessions, both ends against each other, hostile peers, timers,
//! memory.

mod both_ends;
mod compression;
mod counters_move;
mod handshake;
mod hostile;
mod mutation;
mod output;
mod recorded;
mod recorded_compressed;
mod session_file;
mod support;
mod timers;
