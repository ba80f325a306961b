//! RWF messages as the JSON of the WebSocket API, and back. No I/O.
//!
//! A [`Converter`] knows the fields by name (the dictionary), the services by name and the [`Options`]. It is
//! two references and the options: made for each call, it costs nothing.
//!
//! # RWF to JSON
//!
//! ```
//! use rwf::{DataType, Dictionary, Domain, Key, Msg, UpdateMsg, UpdateType};
//! use tickcast_rwf_json::{Converter, KeyPart, NoServices, Options, write_head};
//!
//! let dictionary = Dictionary::new();
//! let converter = Converter::new(&dictionary, &NoServices, Options::default());
//! let update = UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA);
//! let update = Msg::Update(UpdateMsg { update_type: UpdateType::QUOTE, ..update });
//!
//! // What all who watch the item get is written once; each has a stream id of its own in front of it.
//! let mut body = Vec::new();
//! converter.write_body(&update, KeyPart::Given(&Key::item(257, b"TRI.N")), &mut body)?;
//! let mut frame = b"[".to_vec();
//! write_head(7, &mut frame);
//! frame.extend_from_slice(&body);
//! frame.push(b']');
//! let text = r#"[{"ID":7,"Type":"Update","UpdateType":"Quote","Key":{"Service":257,"Name":"TRI.N"}}]"#;
//! assert_eq!(std::str::from_utf8(&frame)?, text);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Text is written straight from the bytes of the message, in one pass; once the vector has its size, nothing
//! is allocated.
//!
//! # JSON to RWF
//!
//! ```
//! use rwf::{Dictionary, Msg};
//! use tickcast_rwf_json::{Converter, Incoming, NoServices, Options, Reader, RefusalKind};
//!
//! let dictionary = Dictionary::new();
//! let options = Options { default_service_id: Some(257), ..Options::default() };
//! let converter = Converter::new(&dictionary, &NoServices, options);
//! let mut reader = Reader::new();
//!
//! let mut requests = 0;
//! let frame = br#"[{"Type":"Ping"},{"ID":5,"Key":{"Name":"TRI.N"}},{"ID":6}]"#;
//! let result = reader.read_frame(&converter, frame, |incoming| match incoming {
//!     Incoming::Message { rwf, .. } => match Msg::parse(rwf) {
//!         Ok(Msg::Request(request)) if request.streaming => requests += request.stream_id,
//!         _ => {}
//!     },
//!     Incoming::Ping | Incoming::Pong | Incoming::Error(_) => {}
//! });
//! // What came before the message that cannot be used has taken effect.
//! let refusal = result.expect_err("a request without a key");
//! assert_eq!((requests, refusal.messages_before, refusal.stream_id), (5, 2, 6));
//! assert_eq!(refusal.kind(), RefusalKind::MissingKey);
//! let mut answer = Vec::new();
//! refusal.write(&mut answer);
//! assert!(answer.starts_with(br#"{"ID":6,"Type":"Error","Text":"JSON Missing required"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A whole frame is checked and indexed first, then each message encoded into one buffer. Input is hostile:
//! lengths, depth and numbers are checked, and the memory of a [`Reader`] is some times the longest frame it
//! was given. Who feeds it limits frames.
//!
//! # The promise
//!
//! - Every message pair of the vendor's converter is converted alike, both ways, but where it is at fault:
//!   all of `tests/vectors.rs`, which lists the exceptions with their reasons.
//! - What JSON can say keeps its content there and back: `round_trip::any_message_keeps_its_content`,
//!   `round_trip::messages_with_all_parts_become_the_same_text_again`.
//! - What recorded clients and servers sent goes through both directions: the two tests of `round_trip` whose
//!   names begin with `what_recorded`.
//! - No bytes and no text make it panic, what it writes is JSON, and what it reads becomes RWF that can be
//!   decoded to its end: all of `robustness`.
//! - A few bytes do not become endless text: `robustness::a_few_bytes_do_not_become_endless_text`.
//!
//! The mapping, member by member, is in `docs/protocol/json.md`.

mod json;
mod limits;
mod names;
mod options;
mod read;
mod write;

pub use options::{Converter, NoServices, Options, Services};
pub use read::{Incoming, PeerError, Reader, Refusal, RefusalKind};
pub use write::{KeyPart, ToJsonError, write_head, write_ping, write_pong};
