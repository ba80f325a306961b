//! Market data in Rust: a consumer that subscribes items at a server, and providers that publish them.
//!
//! ```toml
//! [dependencies]
//! tickcast-client = { path = "tickcast/crates/clients/client" }   # where the sources of Tickcast lie
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use tickcast_client::Consumer;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut consumer = Consumer::connect("localhost:14002")?;
//! consumer.subscribe("BINANCE", "BTCUSDT")?;
//! for event in consumer.events(Duration::from_secs(30)) {
//!     println!("{}", event?);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! This prints what happens, a line each: that it is connected or why not (`no connection to localhost:14002:
//! cannot connect: connection refused ...`), the services, the dictionary, then images and updates
//! (`BINANCE BTCUSDT update: BID=40.07 ASK=40.11`). It ends when nothing came for 30 seconds. Everything else -
//! login, reconnecting, asking again - goes on by itself. **The library writes no log**: why there is no data
//! comes as events, so print those that you do not handle.
//!
//! # Values
//!
//! [`price`](OwnedItemEvent::price) gives the exact decimal ([`Real`], which shows as `40.07`; `to_f64` on
//! request), [`number`](OwnedItemEvent::number) a floating point number, [`text`](OwnedItemEvent::text) text,
//! [`field`](OwnedItemEvent::field) the [`Value`] of any type. A message has the fields that changed: the others
//! are `None`. [`image_field`](ConsumerCore::image_field) looks into the whole image, if the consumer keeps
//! images ([`ConsumerConfig::keep_images`]).
//!
//! ```no_run
//! # use std::time::Duration;
//! use tickcast_client::{Consumer, OwnedEvent};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let mut consumer = Consumer::connect("localhost:14002")?;
//! for event in consumer.events(Duration::from_secs(30)) {
//!     match event? {
//!         OwnedEvent::Item(item) => {
//!             if let Some(bid) = item.price("BID")? {
//!                 println!("{}: bid {bid}, about {:.1}", item.name, bid.to_f64());
//!             }
//!         }
//!         other => eprintln!("{other}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # In a thread of its own
//!
//! [`Consumer::into_channel`] moves the consumer into a thread that queues its events; any thread may take them.
//!
//! ```no_run
//! use tickcast_client::{Consumer, ItemRequestSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let channel = Consumer::connect("localhost:14002")?.into_channel(10_000)?;
//! if let Some(subscribed) = channel.subscribe(&ItemRequestSpec::new("BINANCE", "BTCUSDT")) {
//!     subscribed?;
//! }
//! for event in &channel {
//!     println!("{event}");
//! }
//! channel.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! The queue is bounded. [`Consumer::into_channel_with`] says what happens when the application takes less than
//! comes: reading stops, updates are merged, or the session ends ([`WhenFull`]).
//!
//! # In callbacks
//!
//! The fastest way: [`Consumer::dispatch`] lends each event to a closure, and an update allocates nothing.
//! [`Consumer::work`] and [`Consumer::arm`] fit into somebody else's loop.
//!
//! ```no_run
//! use std::time::Duration;
//! use tickcast_client::{Consumer, ConsumerConfig, ConsumerEvent, Domain, ItemRequestSpec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let hosts = vec!["localhost:14002".parse()?];
//! let mut consumer = Consumer::new(&ConsumerConfig { hosts, user: "ada".into(), ..Default::default() })?;
//! consumer.subscribe("BINANCE", "BTCUSDT")?;
//! let book = ItemRequestSpec::new("BINANCE", "BTCUSDT");
//! consumer.subscribe_with(&ItemRequestSpec { domain: Domain::MARKET_BY_PRICE, ..book })?;
//! while !consumer.is_stopped() {
//!     consumer.dispatch(Duration::from_secs(1), &mut |event: ConsumerEvent<'_>| match event {
//!         ConsumerEvent::Item(event) if event.is_ok() => {
//!             for field in event.fields().into_iter().flatten().flatten() {
//!                 println!("{} {field}", event.name());
//!             }
//!         }
//!         other => eprintln!("{other}"),
//!     })?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Publishing
//!
//! A provider with a dictionary takes fields by their names, and refuses a value of another type than the
//! dictionary's: `field BID: UINT given, REAL wanted, such as Real::decimal(4007, 2) for 40.07; nothing was sent`.
//!
//! ```no_run
//! use std::time::Duration;
//! use tickcast_client::{
//!     Dictionary, Domain, Provider, ProviderConfig, ProviderServiceConfig, Real, RefreshSpec,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut dictionary = Dictionary::new();
//! dictionary.load_fields(&std::fs::read("RDMFieldDictionary")?)?;
//! dictionary.load_enums(&std::fs::read("enumtype.def")?)?;
//! let services = vec![ProviderServiceConfig { name: "NI_PUB".into(), ..Default::default() }];
//! let config = ProviderConfig { services, ..ProviderConfig::default() };
//! let mut provider = Provider::new(&config)?.with_dictionary(&dictionary);
//! let item = provider.item(Domain::MARKET_PRICE, "NI_PUB", "IBM.N")?;
//! let _ = provider.refresh(item, &RefreshSpec::default(), |w| {
//!     w.field_list(|fields| {
//!         fields.put("BID", Real::decimal(4007, 2));
//!         fields.put("ASK", Real::decimal(4011, 2));
//!     });
//! })?;
//! provider.dispatch(Duration::from_secs(1), &mut |event| eprintln!("{event}"))?;
//! # Ok(())
//! # }
//! ```
//!
//! # What there is
//!
//! A [`Consumer`] subscribes items at a server (a point-to-point server, an ADS, an interactive provider) over
//! RSSL or WebSocket; a [`StandbyConsumer`] does so at several at once, of which one is active and the others
//! ready to take over. A [`Provider`] connects to a distribution server and publishes items there. An
//! [`InteractiveProvider`] is itself the server that consumers ask, over RSSL and, if it is given a port for it,
//! in JSON over WebSocket. All look after everything below by themselves: connecting, versions, login, directory,
//! dictionary, reconnecting, asking or publishing again. The directory `examples` has a program for each.
//!
//! Each is a *core* without socket, thread or clock ([`ConsumerCore`], [`ProviderCore`]; the simulator runs
//! these) and a thin driver around it, which works in the application's own thread. What the interfaces take and
//! give of other crates stands here too: values and messages ([`rwf`], the usual ones also by themselves), login,
//! directory and posts ([`rdm`]).
//!
//! # Promise
//!
//! Each sentence is proved by the test named behind it (those of `tests/client` with their module).
//!
//! **Against any server.**
//! - What a consumer asks for is what stock consumers ask for, to the byte but for lengths written in another
//!   form, and what recorded servers answered is delivered
//!   (`recorded::we_ask_for_what_stock_consumers_ask_for_to_the_byte_and_deliver_what_they_were_sent`); a
//!   provider publishes what a stock provider does (`recorded::we_publish_what_a_stock_provider_publishes`).
//!   `interop/system/test_client.py` proves the same against the running libraries.
//! - Whatever a server sends, nothing panics; a malformed message costs its connection, with a reason and a
//!   count, and the next attempt follows
//!   (`hostile::no_server_makes_a_consumer_panic_and_each_fault_ends_in_another_attempt`,
//!   `session::messages_that_are_malformed_or_out_of_place_cost_the_connection_with_their_reason`). A payload
//!   that cannot be merged costs the image alone
//!   (`items::a_payload_that_cannot_be_merged_costs_the_image_alone`).
//!
//! **Connections.**
//! - Servers are tried in turn, without a delay as long as there is one that has not failed, then with delays
//!   that double up to a limit and differ from client to client
//!   (`session::servers_are_tried_in_turn_and_then_again_after_delays_that_double`). Lower versions are
//!   offered at once (`session::a_server_that_does_not_answer_is_offered_lower_versions_at_once`).
//! - Names of servers are looked up on other threads: the caller's goes on
//!   (`names::a_thread_goes_on_with_its_other_connections_while_a_name_is_looked_up`). All addresses of a name are
//!   tried (`names::addresses_of_a_name_are_tried_in_turn_within_one_attempt`,
//!   `names::the_next_attempt_begins_with_the_next_address`); a look-up that fails or hangs is an attempt that
//!   failed (`names::a_name_that_is_not_resolved_is_an_attempt_that_failed_with_its_reason`,
//!   `names::a_look_up_that_hangs_ends_with_its_attempt_and_its_late_answer_serves_the_next`).
//! - A session moves to the first of its servers when that is back, if it is told to look
//!   (`session::a_session_moves_to_the_preferred_server_when_that_is_back`,
//!   `sockets::a_consumer_finds_out_that_the_preferred_server_is_back`).
//! - They are compressed where both ends want it
//!   (`interactive::compressed_connections_carry_the_same_and_fewer_bytes`).
//! - They are encrypted where that is configured
//!   (`interactive::an_encrypted_session_is_like_any_other`); a certificate that is not acceptable is told
//!   apart from other failures
//!   (`interactive::certificates_that_are_not_trusted_are_told_apart_from_other_failures`).
//! - A login that is refused for good is not repeated, one that is refused for now is
//!   (`session::a_login_that_is_refused_for_good_is_not_tried_again_until_the_application_wants_it`,
//!   `session::a_login_that_is_refused_for_now_is_tried_again`). Every wait for an answer has a limit
//!   (`session::answers_that_do_not_come_in_time_cost_the_connection`,
//!   `items::a_request_without_an_answer_is_closed_and_sent_again`).
//! - Over WebSocket a consumer is the same in all of this
//!   (`web::login_directory_dictionary_and_items_come_over_websocket_as_over_rssl`,
//!   `web::a_post_goes_out_as_json_and_its_ack_comes_back`,
//!   `web::a_lost_connection_makes_items_suspect_and_they_come_back`); what is no message costs the
//!   connection (`web::what_is_no_message_costs_the_connection_and_is_counted`).
//!
//! **Warm standby** ([`StandbyConsumer`], [`StandbyCore`]).
//! - Each server has a session of its own and is asked for every item; the application is told what the active
//!   one sends (`standby::both_servers_are_asked_and_what_the_standby_sends_is_not_told`).
//! - When that is lost, the next server's image of each item is told and its updates follow, without a suspect
//!   state in between
//!   (`standby::when_the_active_server_is_lost_the_image_of_the_standby_is_told_and_its_updates_follow`).
//!   Nothing is lost or doubled and numbers never go back as long as a server that is behind catches up in
//!   time (`standby::nothing_is_lost_or_doubled_whatever_happens_to_the_servers`,
//!   `standby::a_standby_that_stays_behind_is_believed_after_a_while`). `interop/system/test_standby.py` kills
//!   servers of both kinds in mid-stream.
//! - The server that comes back stands by
//!   (`standby::the_server_that_comes_back_is_the_standby_and_takes_over_in_its_turn`), or takes over again
//!   when it has the items (`standby::the_preferred_server_takes_over_again_when_it_has_the_items`). While all
//!   are gone items are suspect (`standby::when_all_servers_are_gone_items_are_suspect_until_one_is_back`).
//! - It may be each service that moves (`standby::service_based_a_service_that_goes_down_moves_alone`).
//! - Views, priorities and pauses reach every server
//!   (`standby::view_priority_and_pause_reach_both_servers_and_what_comes_back_later`); posts go to the active
//!   one (`standby::posts_go_to_the_active_server_and_are_answered_once_with_numbers_of_one_sequence`), as do
//!   requests for snapshots and private streams
//!   (`standby::snapshots_and_private_streams_are_the_active_servers_alone`).
//! - Servers that announce standby support can be told their role
//!   (`standby::servers_that_want_to_know_their_role_are_told_before_they_are_asked`,
//!   `standby::service_based_roles_are_told_for_each_service`).
//!
//! **Items.**
//! - An item may be subscribed at any time: it waits for connection, service and dictionary
//!   (`services::an_item_of_an_unknown_service_is_told_so_once_and_waits_for_it`,
//!   `dictionary::items_wait_for_a_dictionary_that_is_required`), and for the window of its service
//!   (`services::no_more_requests_are_out_than_the_window_of_the_service_allows`).
//! - With single open (the default) an item lives until the application or the server ends it. What is lost
//!   in between - connection, service, the stream alone - makes it open and suspect, and it is asked for
//!   again on a stream of its own
//!   (`session::a_lost_connection_makes_items_suspect_and_they_come_back_with_new_streams`,
//!   `services::a_service_that_goes_down_takes_its_items_with_it_until_it_is_up`,
//!   `items::an_item_that_is_closed_for_now_is_shown_suspect_and_asked_for_again_after_a_while`). Without it
//!   each loss ends the item (`items::without_single_open_each_loss_ends_the_item`).
//! - What comes late on a stream that was closed is nobody's: a stream id is not given again
//!   (`items::an_item_that_the_server_closes_has_ended`).
//! - An update costs no allocation; fields of a message are found by their ids without passing over it twice
//!   (`fields::tests::fields_are_found_in_any_order_and_absent_ones_are_not`). What an update costs prints
//!   `cargo run --release -p tickcast-client --example update_speed`.
//! - Images, where they are kept, have everything that came and say when they are stale
//!   (`items::images_have_everything_that_came_and_are_suspect_when_the_item_is`).
//!
//! **Saying more.**
//! - What an application wants of an open item can change - view, priority, pause - and lasts over
//!   connections (`telling::another_view_is_asked_for_on_the_open_stream_and_lasts_over_connections`,
//!   `telling::an_item_is_paused_without_an_image_and_resumed_with_one`); all items are paused with the login
//!   (`telling::all_items_are_paused_by_the_login_on_each_connection_anew`). Items may go in batches
//!   (`telling::items_of_a_batch_go_in_one_message_and_are_closed_in_one`).
//! - A post that wants an ack is told as taken, refused, overdue or lost, once
//!   (`telling::posts_name_their_item_and_are_told_as_taken_or_refused`,
//!   `telling::each_post_is_answered_once_by_time_or_by_the_end_of_the_connection_if_not_by_an_ack`).
//! - What a server's login does not announce is refused to the application
//!   (`telling::what_the_server_does_not_announce_is_refused_to_the_application`).
//!
//! **Publishing.**
//! - After a reconnect login, directory and all images go out before anything that is published later
//!   (`provider::after_a_reconnect_login_directory_and_images_go_out_before_anything_later`); what is
//!   published meanwhile is in the images
//!   (`provider::what_is_published_without_a_connection_goes_out_with_the_image`).
//! - The backlog is bounded. At the bound a message is refused whole, image and numbering as before, until
//!   there is room (`provider::a_full_backlog_refuses_what_is_published_and_takes_it_when_there_is_room`,
//!   `sockets::a_provider_waits_for_room_at_a_server_that_reads_late`); images that go out leave half of it
//!   to live data (`provider::images_after_a_reconnect_leave_room_for_what_is_published_meanwhile`).
//! - Large maps go out in parts, and a change meanwhile is not lost
//!   (`provider::a_large_map_goes_out_in_parts_and_what_changes_meanwhile_is_in_a_later_image`).
//!
//! - Consumers' posts and generic messages that the server hands on come as events, and posts are answered
//!   (`provider::posts_of_consumers_come_with_a_ticket_for_their_answer`).
//!
//! **Being asked.**
//! - The first who asks for an item leads to an event, the others are served from its image
//!   (`interactive::tests::the_first_who_asks_leads_to_an_event_and_the_others_are_served_from_the_image`);
//!   who pauses, resumes, asks once, in a batch, or on a private stream is answered without the application
//!   (`interactive::tests`). An update is encoded once for all who want it.
//! - Posts and generic messages go to the application, and its answers back
//!   (`interactive::a_batch_a_post_and_a_generic_message_go_all_the_way_and_back`).
//! - Over WebSocket it is the same (`interactive_web`): an update is made into JSON once for all who speak it
//!   (`interactive_web::an_update_is_made_into_json_once_for_all_and_clients_of_rssl_have_it_too`). What cannot
//!   be JSON is not lost in silence: the streams it should have reached are told
//!   (`interactive_web::what_cannot_be_json_is_told_to_those_it_concerns`).
//!
//! **Fields.**
//! - Values are had by name as prices, numbers and texts
//!   (`newcomer::fields_are_had_by_name_as_price_number_and_text`), and an error names the field
//!   (`newcomer::a_field_that_is_not_what_is_wanted_is_an_error_that_names_it`). One that its provider wrote
//!   wrongly costs no other (`newcomer::a_field_that_its_provider_wrote_wrongly_is_named_and_costs_no_other`).
//! - With a dictionary a value of another type is refused, and nothing is sent: of a provider
//!   (`newcomer::a_provider_puts_fields_by_name_and_refuses_a_value_of_another_type`,
//!   `newcomer::an_interactive_provider_refuses_it_too`) and of a consumer that posts
//!   (`newcomer::a_consumer_posts_fields_by_name_and_is_refused_a_value_of_another_type`).
//!
//! **Words.** Each event is a line that can be read
//! (`newcomer::five_lines_are_a_consumer_and_each_event_is_a_line_that_can_be_read`), also that of a server that is
//! not there (`newcomer::a_wrong_port_or_host_is_an_event_that_says_where_why_and_what_to_look_at`); errors are
//! readable where `main` prints them (`newcomer::errors_are_readable_where_main_prints_them`).
//!
//! **Applications that cannot keep up.** A channel stops reading, merges updates or ends, as [`QueueConfig`] says.
//! - Whoever takes merged updates late has at each event what one has who was given everything, and nothing but
//!   updates is merged
//!   (`consumer::queue::tests::an_application_that_takes_late_has_what_one_has_that_is_given_everything`). A channel
//!   that conflates reads on (`channel::a_channel_that_conflates_reads_on_and_gives_the_newest_values`).
//! - While nothing is read, the connection stays and no answer is late
//!   (`channel::a_channel_that_blocks_keeps_its_connection_and_takes_no_answer_for_late`).
//! - A channel that fails names the bound (`channel::a_channel_that_fails_gives_what_came_and_names_the_bound`).
//!
//! **Bounds.** Items, posts, backlog, messages, dictionary and the queue of a channel have limits
//! (`items::what_cannot_be_subscribed_is_refused_with_the_reason`,
//! `items::a_hundred_thousand_items_wait_for_room_in_the_backlog_and_all_are_asked_for`,
//! `sockets::a_channel_that_nobody_reads_stops_reading_and_loses_nothing`).
//!
//! **Repeatable.** A core does the same for the same inputs, times and seed
//! (`session::the_same_session_twice_is_the_same_to_the_byte`).
//!
//! # Not built yet
//!
//! Non-interactive providers over WebSocket, for which there is no server; views at an interactive provider;
//! a channel of a consumer with warm standby; posts in parts; symbol lists whose items are opened by
//! themselves.

mod config;
mod connector;
mod consumer;
mod dial;
mod dialled;
mod driver;
mod endpoint;
mod field_error;
mod identity;
mod interactive;
mod lifecycle;
mod login;
mod outgoing;
mod provider;
mod reason;
mod shown;
mod table;
mod web;
mod wire;

pub use self::config::{
    ClientTlsConfig, ConsumerConfig, DictionaryMode, HostPort, HostPortError, InteractiveConfig,
    ProviderConfig, ProviderServiceConfig, QueueConfig, StandbyMode, StandbyServerConfig, WarmStandbyConfig,
    WebSocketConfig, WhenFull,
};
pub use connector::{Attempt, Socket};
pub use consumer::{
    Capability, Consumer, ConsumerChannel, ConsumerCore, ConsumerEvent, ConsumerSendError, DictionaryFault,
    EntryFields, Events, FieldId, FieldRef, FieldView, Fields, FieldsOrRaw, GenericSpec, ItemEvent,
    ItemHandle, ItemMsg, ItemRequestSpec, ItemView, MapEntryView, MapEntryViews, MapView, Merged, OwnedEvent,
    OwnedItemEvent, OwnedOutcome, PostEvent, PostId, PostOutcome, PostSpec, QueueBound, QueueOverrun,
    QueueStats, ServerEvent, ServiceChange, ServiceEvent, StandbyConsumer, StandbyCore, SubscribeError,
    UnreadableField,
};
pub use dialled::{DialledConfig, DialledConnection, DialledEvent};
pub use driver::StartError;
pub use endpoint::Endpoint;
pub use field_error::{FieldError, FieldProblem};
pub use identity::Identity;
pub use interactive::{ClientId, ClientLogin, InteractiveEvent, InteractiveProvider, OwnedMsg, PostTicket};
pub use provider::{
    ItemError, Provider, ProviderCore, ProviderEvent, PublishError, PublishSpec, Published, PublishedItem,
    PublishedTicket, RefreshSpec, UpdateSpec,
};
pub use reason::{ConnectFailure, DisconnectReason};

/// Of other crates: what the interfaces take and give.
pub use counters::table::{
    ConsumerSession, InteractiveSession, JsonClients, ProviderSession, RsslConnections, WebSocketConnections,
};
pub use market::CachedItem;
pub use market::image::{FieldImage, Image, MapImage};
pub use net::{Interest, Poller, Registrar, Resolver, Token, clock};
pub use rssl::Session as RsslSession;
pub use rwf::{
    Array, AsciiString, Buffer, DataState, DataType, Date, DateTime, DecodeError, Dictionary, Domain,
    EncodeError, Enum, FieldListWriter, FieldName, MapAction, MapHead, NakCode, Priority, Qos, Real,
    RmtesString, State, StateCode, StreamState, Time, UpdateType, Utf8String, Value, Writer,
};
pub use units::Nanos;
pub use {rdm, rwf};

pub use server::rssl::{Compression, RsslConfig};
pub use server::websocket::WebSocketConfig as WebSocketServerConfig;
pub use server::{ConnectionInfo, TlsConfig};
