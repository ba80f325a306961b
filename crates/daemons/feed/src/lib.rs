//! Feed handlers and replay of recorded markets.
//!
//! ```
//! use std::sync::Arc;
//! use client::{ItemError, PublishError, PublishedItem, RefreshSpec, UpdateSpec};
//! use rwf::{Domain, FieldList, State, Writer, encode_to_vec};
//! use tickcast_feed::binance::Frame;
//! use tickcast_feed::{Handler, Publisher};
//!
//! /// Where the handler publishes. In the program this is a connection to a source distributor.
//! #[derive(Default)]
//! struct Printed(Vec<String>);
//! impl Publisher for Printed {
//!     fn item(&mut self, domain: Domain, name: &str) -> Result<PublishedItem, ItemError> {
//!         self.0.push(format!("item {name} of domain {}", domain.0));
//!         Ok(PublishedItem::from_u64(self.0.len() as u64))
//!     }
//!     fn update(
//!         &mut self, _: PublishedItem, _: &UpdateSpec<'_>, payload: &dyn Fn(&mut Writer<'_>),
//!     ) -> Result<(), PublishError> {
//!         let bytes = encode_to_vec(|w| payload(w)).expect("it is legal");
//!         let fields = FieldList::parse(&bytes).expect("it is a field list").entries();
//!         self.0.push(format!("update of {} fields", fields.count()));
//!         Ok(())
//!     }
//!     // `refresh` and `status` are alike.
//! #     fn refresh(
//! #         &mut self, _: PublishedItem, _: &RefreshSpec<'_>, _: &dyn Fn(&mut Writer<'_>),
//! #     ) -> Result<(), PublishError> {
//! #         Ok(())
//! #     }
//! #     fn status(&mut self, _: PublishedItem, _: State<'_>) -> Result<(), PublishError> {
//! #         Ok(())
//! #     }
//! }
//!
//! // A line of a recording: when it was received, and what the venue sent.
//! let line = r#"1 {"stream":"x@bookTicker","data":{"u":1,"s":"X","b":"1.0","B":"1","a":"1.1","A":"1"}}"#;
//! let (mut handler, mut printed) = (Handler::new(1, Arc::default()), Printed::default());
//! handler.on_frame(0, Frame::parse(line)?, &mut printed)?;
//! assert_eq!(printed.0, ["item X of domain 6", "item X of domain 8", "update of 8 fields"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | type | what it is |
//! |---|---|
//! | [`Handler`] | frames of a venue become items and their updates; no I/O |
//! | [`binance`] | the frames of Binance's streams, and its order book |
//! | [`Recording`], [`Merged`] | recorded streams, one, or several in the order of their times |
//! | [`Replay`] | plays recordings at a chosen speed and publishes what a handler makes of them |
//! | [`Publisher`] | where a handler publishes: a provider's connection, or what a test looks at |

pub mod binance;
mod config;
mod decimal;
mod depth;
mod fid;
mod handler;
mod price;
mod publisher;
mod recording;
mod replay;
mod when;

pub use self::config::{FeedConfig, Speed, SpeedError};
pub use decimal::{Decimal, DecimalError};
pub use handler::{Handler, HandlerError};
pub use publisher::Publisher;
pub use recording::{Merged, Recording, RecordingError};
pub use replay::{Replay, ReplayError};
