//! Observations of messages: the recorder that a thread carries, and the file that it leaves.
//!
//! ```
//! use tickcast_observation::{Reader, Recorder, Settings, id};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = testkit::Folder::new();
//! # let path = folder.join("sender.obs");
//! // Memory for a million observations, all of it there before the first one.
//! let settings = Settings { point: "sender".to_owned(), capacity: 1_000_000, ..Settings::default() };
//! let mut recorder = Recorder::new(&settings)?;
//! for number in 0..1_000 {
//!     recorder.record(id(7, number));                  // publisher 7: read the clock, store two words
//! }
//! println!("a call costs {:.1} ns here", recorder.cost_ns());
//! recorder.write(&path, |_, _| ())?;
//!
//! let mut file = Reader::open(&path)?;
//! assert_eq!((file.head().point.as_str(), file.head().records), ("sender", 1_000));
//! let first = file.next()?.expect("there are 1,000");
//! let ns = file.head().to_monotonic().at(first.ticks);
//! assert!(first.id == id(7, 0) && ns > 0);
//! # Ok(())
//! # }
//! ```
//!
//! A [`Recorder`] belongs to one thread and has a fixed capacity. A call reads the clock, stores two words and moves on. What
//! comes when it is full is counted. The file says which clock the times are of, how they become nanoseconds, and how far that
//! may be off ([`Calibration`]); `docs/observer.md` describes it byte by byte. [`Reader`] takes files of anybody: what is wrong
//! with one is an error that names the place. `tickcast analyse` pairs files of two points.

mod calibration;
mod clock;
mod head;
mod line;
mod reader;
mod recorder;
mod writer;

pub use calibration::Calibration;
pub use clock::Clock;
pub use head::{HEAD_BYTES, Head, MAGIC, MOST_RECORDS, RECORD_BYTES, SUM_BYTES, VERSION};
pub use line::Line;
pub use reader::{FileError, Reader};
pub use recorder::{Recorder, Settings, cost_ns};
pub use writer::encode;

/// One message at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the message, the same at every point: [`id`], or any number that the application gives it.
    pub id: u64,
    /// When, in ticks of the file's clock.
    pub ticks: u64,
}

/// Bits of an id that number the messages of a publisher.
const NUMBER_BITS: u32 = 48;

/// The id of a publisher's message: the publisher in the upper 16 bits, the message's number in the lower 48.
///
/// Messages of several publishers in one file are kept apart by that, and each publisher's order is looked at by itself.
#[inline]
#[must_use]
pub const fn id(publisher: u16, number: u64) -> u64 {
    (publisher as u64) << NUMBER_BITS | number & ((1 << NUMBER_BITS) - 1)
}

/// The publisher of an id.
#[inline]
#[must_use]
pub const fn publisher_of(id: u64) -> u16 {
    (id >> NUMBER_BITS) as u16
}
