//! What the domains mean: login, source directory, dictionary, item requests, posts and publications as typed
//! values to and from RWF.
//!
//! ```
//! use rwf::Msg;
//! use tickcast_rdm::ToVec;
//! use tickcast_rdm::login::{LoginMsg, LoginRefresh, LoginRequest};
//!
//! // What a consumer sends ...
//! let request = LoginRequest::consumer(b"someone").to_vec()?;
//!
//! // ... a server reads, and answers.
//! let LoginMsg::Request(login) = LoginMsg::parse(&Msg::parse(&request)?)? else { panic!("a request") };
//! assert_eq!(login.name, b"someone");
//! let answer = LoginRefresh::accept(&login).to_vec()?;
//!
//! let LoginMsg::Refresh(accepted) = LoginMsg::parse(&Msg::parse(&answer)?)? else { panic!("a refresh") };
//! assert_eq!(accepted.name, Some(&b"someone"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A message is first read by the codec ([`rwf::Msg::parse`]: are the bytes legal?), then by its domain (does
//! it say what the domain lets it say?). What comes out can only hold legal values; what is wrong is an
//! [`RdmError`] that names the part, and the code for the answer. Both ends are here: what a consumer sends,
//! a server reads, and the other way round.
//!
//! This is the control plane, so clarity comes before speed and values may allocate. Images and updates of
//! items pass by as they are. Nothing here does I/O, reads a clock or keeps a stream's state; that belongs to
//! who uses it.
//!
//! | domain | consumer to server | server to consumer |
//! |---|---|---|
//! | login | [`LoginRequest`], [`RoundTrip`], [`logout`] | [`LoginRefresh`], [`LoginStatus`], [`RoundTrip`] |
//! | source directory | [`DirectoryRequest`] | [`DirectoryRefresh`], [`DirectoryUpdate`] |
//! | dictionary | [`DictionaryRequest`], [`DictionaryDownload`] | [`DictionaryParts`] |
//! | items | [`ItemRequest`], [`ItemClose`], [`Post`] | [`Reply`], [`ack`], [`nak`] |
//!
//! Both sides keep the services in a [`Directory`]. A non-interactive provider logs in and publishes its
//! directory and its items ([`LoginRequest::provider`], [`DirectoryRefresh::publish`], [`PublishedItem`]);
//! the server reads them ([`Publication`]).
//!
//! [`LoginRequest`]: login::LoginRequest
//! [`LoginRequest::provider`]: login::LoginRequest::provider
//! [`RoundTrip`]: login::RoundTrip
//! [`logout`]: login::logout
//! [`LoginRefresh`]: login::LoginRefresh
//! [`LoginStatus`]: login::LoginStatus
//! [`DirectoryRequest`]: directory::DirectoryRequest
//! [`DirectoryRefresh`]: directory::DirectoryRefresh
//! [`DirectoryRefresh::publish`]: directory::DirectoryRefresh::publish
//! [`DirectoryUpdate`]: directory::DirectoryUpdate
//! [`Directory`]: directory::Directory
//! [`DictionaryRequest`]: dictionary::DictionaryRequest
//! [`DictionaryDownload`]: dictionary::DictionaryDownload
//! [`DictionaryParts`]: dictionary::DictionaryParts
//! [`ItemRequest`]: item::ItemRequest
//! [`ItemClose`]: item::ItemClose
//! [`Post`]: post::Post
//! [`ack`]: post::ack
//! [`nak`]: post::nak
//! [`PublishedItem`]: publish::PublishedItem
//! [`Publication`]: publish::Publication
//!
//! What needs no payload or attributes of its own is a message struct of `rwf`, to be encoded into the
//! caller's buffer; everything goes to a new vector by [`ToVec::to_vec`].
//!
//! # Serving
//!
//! ```
//! use rwf::{DataType, Domain, Msg, Qos, StateCode};
//! use tickcast_rdm::directory::{Directory, DirectoryMsg, DirectoryRefresh};
//! use tickcast_rdm::item::{ItemRequest, Target};
//! use tickcast_rdm::login::{Features, LoginMsg, LoginRefresh};
//! use tickcast_rdm::{RdmError, Reply, ToVec};
//!
//! /// The answer to a message of a consumer, if there is one.
//! fn answer(directory: &Directory, msg: &Msg<'_>) -> Result<Option<Vec<u8>>, RdmError> {
//!     Ok(Some(match msg.domain() {
//!         Domain::LOGIN => {
//!             let LoginMsg::Request(login) = LoginMsg::parse(msg)? else { return Ok(None) };
//!             let features = Features { view_requests: Some(true), ..Features::default() };
//!             LoginRefresh { features, ..LoginRefresh::accept(&login) }.to_vec()?
//!         }
//!         Domain::SOURCE => {
//!             let DirectoryMsg::Request(request) = DirectoryMsg::parse(msg)? else { return Ok(None) };
//!             DirectoryRefresh::answer(&request, directory.services())?.to_vec()?
//!         }
//!         _ => {
//!             let Msg::Request(request) = msg else { return Ok(None) };
//!             let request = ItemRequest::parse(request)?;
//!             let Target::Item(key) = &request.target else { return Ok(None) };
//!             match directory.refuses(key.service_id, request.domain, request.qos_range()) {
//!                 Some(refusal) => Reply::to(msg).status(refusal.state()).to_vec()?,
//!                 None => Reply::to(msg).closed(StateCode::NOT_FOUND, "no such item").to_vec()?,
//!             }
//!         }
//!     }))
//! }
//!
//! # use tickcast_rdm::{item::ItemKey, login::LoginRequest};
//! let login = LoginRequest::consumer(b"someone").to_vec()?;
//! let accepted = answer(&Directory::default(), &Msg::parse(&login)?)?.expect("every login is answered");
//! # assert!(matches!(LoginMsg::parse(&Msg::parse(&accepted)?), Ok(LoginMsg::Refresh(_))));
//! let item = ItemRequest::streaming(Domain::MARKET_PRICE, 5, ItemKey::new(1, b"TEST.1")).to_vec()?;
//! let msg = Msg::parse(&item)?;
//! // What is refused can still be answered: on its stream, under its key, with the code of the error.
//! let answered = answer(&Directory::default(), &msg);
//! let refused = answered.or_else(|error| Reply::to(&msg).refuse(&error).map(Some))?;
//! # let Msg::Status(status) = Msg::parse(refused.as_deref().expect("answered"))? else { panic!() };
//! # assert_eq!(status.state.expect("a state").code, StateCode::SOURCE_UNKNOWN);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promise
//!
//! Each sentence is proved by the test named behind it (those of `tests/rdm` with their module).
//!
//! - What stock consumers and providers were recorded to send is read to what it says, and what is read is
//!   written again with the same content, element by element in the same order (all of `recorded`); whole
//!   conversations are understood
//!   (`sessions::every_message_of_the_recorded_sessions_is_understood_in_its_conversation`).
//! - What we answer is what the recorded providers answered
//!   (`recorded::what_an_interactive_provider_answers_is_what_we_would_answer`,
//!   `recorded::posts_are_read_and_answered_as_recorded`).
//! - A service as we send it lets a stock consumer ask for items and download dictionaries
//!   (`expectations::the_refresh_of_a_typical_service_lets_a_stock_consumer_ask_for_items`), and entries that
//!   change have the elements that the vendor's libraries insist on
//!   (`expectations::every_entry_that_changes_has_the_elements_that_the_libraries_insist_on`).
//! - A follower of a directory knows what its leader knows, whenever it joined
//!   (`directory::a_follower_that_joins_at_any_time_knows_what_the_leader_knows`) and in whatever order it
//!   heard of things that are apart (`directory::deltas_in_any_legal_order_end_in_the_same_directory`).
//! - Names and ids of services are unique, and a directory message takes effect as a whole or not at all
//!   (`directory::names_and_ids_are_unique_when_all_is_said_or_nothing_changes`,
//!   `hostile::spoilt_messages_are_refused_or_read_but_never_panic`).
//! - A dictionary is complete only with its last part, and none has a hole
//!   (`dictionary::recorded_parts_make_a_whole_dictionary_only_with_the_last`,
//!   `dictionary::a_part_nobody_asked_for_and_parts_after_an_error_are_refused`).
//! - No input panics; a message that is cut off is noticed wherever this crate looks into it
//!   (`hostile::a_message_cut_off_anywhere_is_an_error_or_says_less`).
//! - What a peer can make a directory or a download hold is bounded
//!   (`hostile::a_directory_holds_no_more_than_its_limits`,
//!   `dictionary::more_bytes_than_the_limit_are_refused`).
//! - Passwords and tokens are neither printed (`login::request::tests::secrets_are_not_shown`) nor sent back
//!   (`reply::tests::a_refused_login_does_not_get_its_password_back`).

pub mod dictionary;
pub mod directory;
mod element;
mod error;
pub mod item;
pub mod login;
mod message;
mod number;
pub mod post;
pub mod publish;
mod reply;
mod state;

pub use element::Element;
pub use error::{Part, RdmError};
pub use message::ToVec;
pub use reply::Reply;
pub use state::{ENTRY_TEXT_BYTES_MAX, OwnedState};
