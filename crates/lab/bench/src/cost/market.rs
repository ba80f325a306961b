//! Updates through a point-to-point server of this thread: from its side of the backbone into the sockets of its
//! clients, and the merge of an update into an image alone.
//!
//! What is counted is one turn of the server's agent, which merges, fans out and writes; clients and what they ask
//! for are served outside of the counted functions.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use client::{Consumer, ConsumerConfig, ConsumerEvent, HostPort};
use counters::Registry;
use market::backbone::Kind;
use market::image::FieldRules;
use market::{CachedItem, Conflated, ItemKey, RefreshForm, Scratch};
use net::agent::Agent;
use net::{Poller, Ready, clock};
use p2ps::{P2psConfig, PointToPointServer};
use rwf::{DataType, Dictionary, Domain, Msg, Real, RefreshMsg, UpdateMsg, Writer};
use scripted::{Script, image_of, update_of};
use serde_json::json;

use crate::BenchError;
use crate::process::{START_LIMIT, answer, free_port};
use crate::template::Template;

/// Rounds before the counted ones: tables have grown.
const WARM_ROUNDS: u32 = 64;
/// Updates that are counted in each case.
const UPDATES: u32 = 2_048;
/// Items that each client watches; updates go to one after the other.
const ITEMS: u32 = 64;
/// Fields of an image, of which an update has the first ones.
const FIELDS: i16 = 40;
const UPDATE_FIELDS: i16 = 10;

/// How many clients watch, how many updates a turn brings, and the function that is counted.
struct Case {
    figure: &'static str,
    clients: u32,
    batch: u32,
    /// Updates carry hop stamps.
    stamps: bool,
    turn: fn(&mut Server),
}

macro_rules! cases {
    ($( $clients:literal, $what:literal, $batch:literal: $turn:ident; )+) => {
        const CASES: &[Case] = &[$(
            Case { figure: concat!("p2ps turn, ", $what, ": ", $batch, ", clients: ", $clients),
                clients: $clients, batch: $batch, stamps: $what.len() > "updates".len(), turn: $turn },
        )+];

        $(
            // Each is a function by its own name, which nothing may merge with another.
            #[inline(never)]
            fn $turn(server: &mut Server) {
                black_box(stringify!($turn));
                server.turn();
            }
        )+

        /// What is counted: the functions' names, and how each figure is called.
        pub(super) const COUNTED: &[(&str, &str)] = &[
            ("counted_image_merge", MERGE),
            ("counted_image_whole", WHOLE),
            ("counted_image_encode", ENCODE),
            ("counted_changes_note", NOTED),
            ("counted_changes_encode", CONFLATED),
            ("counted_image_10_10", MERGES[0].figure),
            ("counted_image_86_23_plain", MERGES[1].figure),
            ("counted_image_86_23_ripples", MERGES[2].figure),
            ("counted_image_300_23", MERGES[3].figure),
            $( (stringify!($turn), concat!("p2ps turn, ", $what, ": ", $batch, ", clients: ", $clients)), )+
        ];
    };
}

const MERGE: &str = "image of 40 fields, update of 10";
const WHOLE: &str = "image of 86 fields, new item";
const ENCODE: &str = "image of 86 fields, encoded";
const NOTED: &str = "image of 86 fields, update of 10, changes noted";
const CONFLATED: &str = "image of 86 fields, 23 changed, conflated update";

/// Fields of an image and of its updates, whether they ripple, and the function that is counted.
struct Merge {
    figure: &'static str,
    template: Template,
    ripples: bool,
    merge: fn(&mut CachedItem, &UpdateMsg<'_>, &FieldRules) -> bool,
}

macro_rules! merges {
    ($( $figure:literal, $image_fields:literal, $update_fields:literal, $ripples:literal: $merge:ident; )+) => {
        const MERGES: &[Merge] = &[$( Merge {
            figure: $figure,
            template: Template { image_fields: $image_fields, update_fields: $update_fields },
            ripples: $ripples,
            merge: $merge,
        }, )+];

        $(
            #[inline(never)]
            fn $merge(item: &mut CachedItem, update: &UpdateMsg<'_>, rules: &FieldRules) -> bool {
                black_box(stringify!($merge));
                black_box(item).on_update(black_box(update), rules).is_ok()
            }
        )+
    };
}

merges! {
    "image of 10 fields, update of 10", 10, 10, false: counted_image_10_10;
    "image of 86 fields, update of 23", 86, 23, false: counted_image_86_23_plain;
    "image of 86 fields, update of 23, ripples", 86, 23, true: counted_image_86_23_ripples;
    "image of 300 fields, update of 23", 300, 23, false: counted_image_300_23;
}

cases! {
    0, "updates", 16: counted_p2ps_0_16;
    1, "updates", 1: counted_p2ps_1_1;
    1, "stamped updates", 1: counted_p2ps_stamped_1_1;
    1, "updates", 64: counted_p2ps_1_64;
    1, "stamped updates", 64: counted_p2ps_stamped_1_64;
    16, "updates", 1: counted_p2ps_16_1;
    16, "updates", 64: counted_p2ps_16_64;
    16, "stamped updates", 64: counted_p2ps_stamped_16_64;
}

/// Plays all cases; tells how many updates each counted function has taken part in.
pub(super) fn run() -> Result<(), BenchError> {
    merge()?;
    MERGES.iter().try_for_each(Merge::run)?;
    whole()?;
    conflated()?;
    for case in CASES {
        let mut server = Server::open(case)?;
        for _ in 0..WARM_ROUNDS {
            server.round(case.batch, Server::turn)?;
        }
        let rounds = UPDATES.div_ceil(case.batch);
        for _ in 0..rounds {
            server.round(case.batch, case.turn)?;
        }
        answer(&json!({ "figure": case.figure, "messages": rounds * case.batch }));
    }
    Ok(())
}

fn merge() -> Result<(), BenchError> {
    let (rules, mut item) = (FieldRules::of(&Dictionary::new()), CachedItem::new(false));
    let (image, update) = (image(), update(7));
    let (Msg::Refresh(image), Msg::Update(update)) = (parsed(&image)?, parsed(&update)?) else {
        return Err(BenchError::new("they were written as others"));
    };
    let taken = item.on_refresh(&image, &rules).is_ok();
    for _ in 0..UPDATES {
        if !counted_image_merge(&mut item, &update, &rules) || !taken {
            return Err(BenchError::new("an image and an update of it are refused"));
        }
    }
    answer(&json!({ "figure": MERGE, "messages": UPDATES }));
    Ok(())
}

#[inline(never)]
fn counted_image_merge(item: &mut CachedItem, update: &UpdateMsg<'_>, rules: &FieldRules) -> bool {
    black_box(item).on_update(black_box(update), rules).is_ok()
}

/// Updates of a case, which follow each other; no two of them are alike.
const UPDATE_KINDS: u64 = 61;

impl Merge {
    fn run(&self) -> Result<(), BenchError> {
        let (rules, mut item) = (self.template.rules(self.ripples), CachedItem::new(true));
        let image = refresh_of(self.template)?;
        let update = |n| message(|w| self.template.write_update(w, n));
        let updates: Vec<Vec<u8>> = (0..UPDATE_KINDS).map(update).collect::<Result<_, _>>()?;
        take(&mut item, &image, &rules)?;
        for (n, payload) in updates.iter().cycle().take(2 * UPDATES as usize).enumerate() {
            let update =
                UpdateMsg { payload, ..UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST) };
            // Of the first round nothing counts: rooms grow.
            let is_taken = match n < UPDATES as usize {
                true => item.on_update(&update, &rules).is_ok(),
                false => (self.merge)(&mut item, &update, &rules),
            };
            if !is_taken {
                return Err(BenchError::new("an update is refused"));
            }
        }
        answer(&json!({ "figure": self.figure, "messages": UPDATES }));
        Ok(())
    }
}

/// New items of one template, and their images encoded.
fn whole() -> Result<(), BenchError> {
    let template = Template { image_fields: 86, update_fields: 0 };
    let (rules, image) = (template.rules(true), refresh_of(template)?);
    let (mut scratch, mut bytes) = (Scratch::default(), 0);
    take(&mut CachedItem::new(true), &image, &rules)?;
    for _ in 0..UPDATES {
        let mut item = CachedItem::new(true);
        if !counted_image_whole(&mut item, &image, &rules) {
            return Err(BenchError::new("an image is refused"));
        }
        counted_image_encode(&item, &mut scratch, &mut bytes);
    }
    if bytes < UPDATES as usize * image.len() {
        return Err(BenchError::new("an image is not encoded"));
    }
    answer(&json!({ "figure": WHOLE, "messages": UPDATES }));
    answer(&json!({ "figure": ENCODE, "messages": UPDATES }));
    Ok(())
}

/// Updates whose changes are noted, and what readers are sent that lack one.
fn conflated() -> Result<(), BenchError> {
    let small = Template { image_fields: 86, update_fields: 10 };
    let large = Template { update_fields: 23, ..small };
    let (rules, mut scratch, mut bytes) = (small.rules(false), Scratch::default(), 0);
    let items = [small, large].map(|template| (template, CachedItem::new(false)));
    for (template, mut item) in items {
        take(&mut item, &refresh_of(template)?, &rules)?;
        item.track_changes(None);
        for n in 0..2 * u64::from(UPDATES) {
            let payload = message(|w| template.write_update(w, n % UPDATE_KINDS))?;
            let head = UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
            let update = UpdateMsg { payload: &payload, ..head };
            let is_counted = n >= UPDATES.into() && template.update_fields == small.update_fields;
            let is_taken = match is_counted {
                true => counted_changes_note(&mut item, &update, &rules),
                false => item.on_update(&update, &rules).is_ok(),
            };
            if !is_taken {
                return Err(BenchError::new("an update is refused"));
            }
            if n >= UPDATES.into() && template.update_fields == large.update_fields {
                bytes += counted_changes_encode(&item, &mut scratch);
            }
        }
    }
    if bytes < UPDATES as usize * 23 {
        return Err(BenchError::new("changes are not encoded"));
    }
    answer(&json!({ "figure": NOTED, "messages": UPDATES }));
    answer(&json!({ "figure": CONFLATED, "messages": UPDATES }));
    Ok(())
}

#[inline(never)]
fn counted_changes_note(item: &mut CachedItem, update: &UpdateMsg<'_>, rules: &FieldRules) -> bool {
    // Or the linker makes one function of it and `counted_image_merge`.
    black_box("counted_changes_note");
    black_box(item).on_update(black_box(update), rules).is_ok()
}

#[inline(never)]
fn counted_changes_encode(item: &CachedItem, scratch: &mut Scratch) -> usize {
    let (key, since) = (ItemKey::named(1, Domain::MARKET_PRICE, b"ITEM"), item.version() - 1);
    match black_box(item).encode_changes(key, since, None, scratch) {
        Conflated::Update(message) => message.len(),
        Conflated::Nothing | Conflated::NeedsImage => 0,
    }
}

fn refresh_of(template: Template) -> Result<Vec<u8>, BenchError> {
    message(|w| template.write_image(w))
}

fn message(write: impl Fn(&mut Writer<'_>)) -> Result<Vec<u8>, BenchError> {
    rwf::encode_to_vec(write).map_err(|error| BenchError::new(format!("of the program itself: {error}")))
}

fn take(item: &mut CachedItem, payload: &[u8], rules: &FieldRules) -> Result<(), BenchError> {
    let head = RefreshMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
    let taken = item.on_refresh(&RefreshMsg { complete: true, payload, ..head }, rules);
    taken.map(drop).map_err(|error| BenchError::new(format!("an image is refused: {error}")))
}

#[inline(never)]
fn counted_image_whole(item: &mut CachedItem, payload: &[u8], rules: &FieldRules) -> bool {
    take(black_box(item), black_box(payload), rules).is_ok()
}

#[inline(never)]
fn counted_image_encode(item: &CachedItem, scratch: &mut Scratch, bytes: &mut usize) {
    let (key, form) = (
        ItemKey::named(1, Domain::MARKET_PRICE, b"ITEM"),
        RefreshForm { solicited: true, part_bytes: 6_000 },
    );
    black_box(item).encode_refresh(key, form, scratch, |message| *bytes += message.len());
}

fn parsed(bytes: &[u8]) -> Result<Msg<'_>, BenchError> {
    Msg::parse(bytes).map_err(|error| BenchError::new(format!("of the program itself: {error}")))
}

fn fields(count: i16, value: i64) -> Vec<u8> {
    let all = 1..=count;
    rwf::encode_to_vec(|w| {
        w.field_list(|f| all.clone().for_each(|id| f.put(id, Real::decimal(value + i64::from(id), 2))));
    })
    .unwrap_or_default()
}

fn image() -> Vec<u8> {
    image_of(&fields(FIELDS, 1_000_000))
}

fn update(value: i64) -> Vec<u8> {
    update_of(&fields(UPDATE_FIELDS, 1_000_000 + value))
}

const NAME: &str = "COST";

/// A point-to-point server, its feed, and its clients.
struct Server {
    poller: Poller,
    feed: Script,
    agent: PointToPointServer<Script>,
    clients: Vec<Consumer>,
    /// Messages of items that clients have got.
    heard: u32,
    next_item: u32,
}

impl Server {
    fn open(case: &Case) -> Result<Server, BenchError> {
        let (poller, feed) = (Poller::new()?, Script::new(NAME));
        let names: Vec<String> = (1..=ITEMS).map(|item| item.to_string()).collect();
        feed.serve(&names.iter().map(|name| (name.as_str(), image())).collect::<Vec<_>>());
        let config = P2psConfig {
            rssl_port: free_port()?,
            websocket_port: 0,
            // Timers that come in between would count.
            progress_interval_ms: 1_000,
            round_trip_interval_ms: 0,
            // Every update is counted, however long it has waited.
            conflate_above_bytes: 0,
            conflate_above_ms: 0,
            ..P2psConfig::default()
        };
        let dictionary = Arc::new(Dictionary::new());
        let (registrar, registry) = (poller.registrar(), Registry::default());
        let agent = PointToPointServer::new(
            &config,
            dictionary.clone(),
            feed.clone(),
            registrar,
            1,
            clock::seed(),
            &registry,
        )?;
        let host = format!("127.0.0.1:{}", agent.rssl_address()?.port());
        let host: HostPort = host.parse().map_err(|_| BenchError::new(format!("{host} is no server")))?;
        let mut server = Server { poller, feed, agent, clients: Vec::new(), heard: 0, next_item: 0 };
        for _ in 0..case.clients {
            let config = ConsumerConfig { hosts: vec![host.clone()], ..ConsumerConfig::default() };
            let client = Consumer::new(&config).map_err(|error| BenchError::new(error.to_string()))?;
            let mut client = client.with_dictionary(dictionary.clone());
            for item in 1..=ITEMS {
                client
                    .subscribe(NAME, &item.to_string())
                    .map_err(|error| BenchError::new(error.to_string()))?;
            }
            server.clients.push(client);
        }
        server.until_heard(case.clients * ITEMS, Server::turn)?;
        server.heard = 0;
        if case.stamps {
            server.feed.stamp();
        }
        Ok(server)
    }

    fn turn(&mut self) {
        self.agent.turn(clock::monotonic());
    }

    /// A batch of updates in one turn, and turns until all clients have all of it.
    fn round(&mut self, batch: u32, turn: fn(&mut Server)) -> Result<(), BenchError> {
        for _ in 0..batch {
            self.next_item = self.next_item % ITEMS + 1;
            let (_, sent) = self.feed.taken_of_sent();
            self.feed.say_of(self.next_item, Kind::Update, &update(sent as i64));
        }
        turn(self);
        let all = self.heard + batch * self.clients.len() as u32;
        self.until_heard(all, Server::turn)
    }

    fn until_heard(&mut self, all: u32, turn: fn(&mut Server)) -> Result<(), BenchError> {
        let deadline = clock::monotonic().after(START_LIMIT);
        while self.heard < all {
            if clock::monotonic() > deadline {
                return Err(BenchError::new(format!("{} of {all} messages came", self.heard)));
            }
            let ready: Vec<Ready> = self.poller.wait(Some(Duration::ZERO))?.collect();
            for one in ready {
                self.agent.on_ready(clock::monotonic(), one);
            }
            turn(self);
            for client in &mut self.clients {
                let heard = &mut self.heard;
                client.work(&mut |event: ConsumerEvent<'_>| {
                    *heard += u32::from(matches!(event, ConsumerEvent::Item(item) if item.is_ok()));
                });
            }
        }
        Ok(())
    }
}
