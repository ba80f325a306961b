//! RWF messages as the JSON of the WebSocket API, and back. No I/O.
//!
//! A [`Converter`] knows the fields by name (the dictionary), the services by name and the [`Options`]. It is three
//! references: made for each call, it costs nothing.
//!
//! # RWF to JSON
//!
//! ```
//! use rwf::{DataType, Dictionary, Domain, Key, Msg, UpdateMsg};
//! use tickcast_rwf_json::{Converter, KeyPart, NoServices, Options, write_head};
//!
//! let dictionary = Dictionary::new();
//! let converter = Converter::new(&dictionary, &NoServices, Options::default());
//! let update = Msg::Update(UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA));
//!
//! // What all who watch the item get is written once; each has a stream id of its own in front of it.
//! let mut body = Vec::new();
//! converter.write_body(&update, KeyPart::Given(&Key::item(257, b"TRI.N")), &mut body)?;
//! let mut frame = b"[".to_vec();
//! write_head(7, &mut frame);
//! frame.extend_from_slice(&body);
//! frame.push(b']');
//! let text = r#"[{"ID":7,"Type":"Update","UpdateType":"Unspecified","Key":{"Service":257,"Name":"TRI.N"}}]"#;
//! assert_eq!(std::str::from_utf8(&frame)?, text);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Text is written straight from the bytes of the message, in one pass; once the vector has its size, nothing is
//! allocated.

mod json;
mod names;
mod options;
mod write;

pub use options::{Converter, NoServices, Options, Services};
pub use write::{KeyPart, ToJsonError, write_head};
