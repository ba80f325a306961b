//! Load for any RSSL server or consumer: a provider that publishes at a rate, a consumer that counts and times.
//!
//! ```
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use clap::Parser;
//! use tickcast_testtools::testclient::{self, TestClientArgs};
//! use tickcast_testtools::testserver::{TestServer, TestServerArgs};
//!
//! /// A program with both commands, as `tickcast` is one.
//! #[derive(Parser)]
//! enum Program {
//!     Server(TestServerArgs),
//!     Client(TestClientArgs),
//! }
//!
//! let Program::Server(args) = Program::parse_from(["p", "server", "--port", "0", "--updates", "1000"]) else {
//!     unreachable!()
//! };
//! let server = TestServer::new(&args)?;
//! let host = format!("127.0.0.1:{}", server.local_address()?.port());
//! let stop = Arc::new(AtomicBool::new(false));
//! let serving = std::thread::spawn({
//!     let stop = Arc::clone(&stop);
//!     move || server.run(&stop, &mut std::io::sink())
//! });
//!
//! // Ten items; the run is over with the thousandth update.
//! let words = ["p", "client", "--host", &host, "--items", "10", "--updates", "1000"];
//! let Program::Client(args) = Program::parse_from(words) else { unreachable!() };
//! let outcome = testclient::run(&args, &stop, &mut std::io::sink())?;
//! assert_eq!((outcome.counts.images, outcome.counts.updates()), (10, 1000));
//!
//! stop.store(true, Ordering::Release);
//! assert_eq!(serving.join().expect("it serves")?.updates, 1000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what is in it |
//! |---|---|
//! | [`testserver`] | the provider: interactive at a port of its own, or non-interactive at a distribution server |
//! | [`testclient`] | the consumer: connections with a thread each, one report |
//! | [`ticks`] | when messages leave and which are timed: pure, under any clock |
//! | [`messages`], [`item_list`] | what is sent and asked for, from files in the XML of the SDK's tools |
//! | [`statistics`], [`stamp_clock`], [`usage`] | latencies, the clock that they are taken by, processor time and memory |
//!
//! Both ends are judged against programs on the EMA library in `interop/system/test_testtools.py`.

mod command;
pub mod dictionary;
pub mod item_list;
mod lines;
pub mod messages;
pub mod stamp_clock;
pub mod statistics;
pub mod testclient;
pub mod testserver;
pub mod ticks;
pub mod usage;
mod xml;

pub use command::TestToolError;
pub use xml::FileFault;
