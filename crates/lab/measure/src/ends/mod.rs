//! The two ends of a measurement: what a program must do to take part, whoever wrote it.
//!
//! A program is started with the words of an [`End`], makes a [`Link`] of what it measures, says that it is
//! ready ([`answer`]) and then [`play`]s. So the loops that send, receive and take the time are the same for
//! all. It speaks lines of JSON:
//!
//! | role | hears | answers |
//! |---|---|---|
//! | all | (it was started) | `{"ready": true}` |
//! | `pingpong` | `{"seconds": S}` | `{"half_round_trip": SUMMARY}` |
//! | `reflector` | - | sends back what comes |
//! | `stream` | `{"seconds": S}`, `{"seconds": S, "rate": R, "is_timed": B, "gives_up_ms": G}` | `{"sent": N, "unsent": U, "start_ns": T, "took_ns": D}` |
//! | `receiver` | `{"sent": N}`: no more will come | `{"received": N, ..., "last_ns": T}` |
//!
//! The far end (`reflector`, `receiver`) is started first and is ready before the other is there; the near
//! one is ready when they are connected both ways. A stream without a rate goes as fast as the link takes it;
//! at a rate each message carries the time at which it was meant to be sent, and the receiver times each,
//! unless told not to. A sender that is as far behind its times as it is told leaves the rest unsent. With `--reflect P` the receiver
//! of a stream sends P percent of its messages back, and the sender answers their round trips too (`reflected`). The end of
//! the input ends the program.

mod end;
mod link;
mod observing;
mod pingpong;
mod play;
mod stream;

pub use end::End;
pub use link::Link;
pub use observing::Observe;
pub use play::{answer, commands, play};
pub use stream::{Reflected, report, sent_report};

/// Any failure ends the program, with words on stderr.
pub type Failure = Box<dyn std::error::Error>;
