//! Whatever consumers send, the provider bears it.

use clap::Parser;
use net::clock;
use rdm::ToVec;
use rdm::directory::DirectoryRequest;
use rdm::item::{ItemClose, ItemKey, ItemRequest, Target, View};
use rdm::login::LoginRequest;
use rwf::{DataType, Domain, GenericMsg, Key, PostMsg};
use server::rssl::Rssl;
use server::{ConnectionId, Outbox, Service};
use units::Rng;

use super::core::{Client, Core, Open};
use super::{TestServerArgs, templates};
use crate::dictionary;
use crate::messages::MessageSet;
use crate::ticks::{Rate, StampPlan, StampRate};

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    args: TestServerArgs,
}

const CONNECTION: ConnectionId = ConnectionId(0);

/// A provider with one connection that has said nothing yet.
fn core(words: &[&str]) -> (Core, Outbox) {
    let Program { args } = Program::parse_from([&["p"], words].concat());
    let set = MessageSet::standard().expect("good");
    let mut core = Core::new(&args, set, dictionary::load(None).expect("good")).expect("good");
    let plan = StampPlan::new(StampRate::All, Rate { per_second: 1, ticks_per_second: 1 }, 1);
    core.clients.insert(CONNECTION, Client::new(plan));
    let mut outbox = Outbox::default();
    outbox.add(CONNECTION);
    (core, outbox)
}

fn say(core: &mut Core, outbox: &mut Outbox, message: &[u8]) -> bool {
    let answer = Service::<Rssl>::on_message(core, clock::monotonic(), CONNECTION, message, outbox);
    answer.is_continue()
}

/// What consumers send, in a good order.
fn session() -> Vec<Vec<u8>> {
    let item =
        |id, name: &'static [u8]| ItemRequest::streaming(Domain::MARKET_PRICE, id, ItemKey::new(1, name));
    let batch = ItemRequest {
        target: Target::Items { common: ItemKey::new(1, b""), names: vec![b"B", b"C", b"D"] },
        view: Some(View::Fields([22, 25].into())),
        ..item(10, b"")
    };
    let post = PostMsg {
        complete: true,
        ack: true,
        post_id: Some(7),
        key: Some(Key::item(1, b"A")),
        payload: &[0],
        ..PostMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST)
    };
    let generic =
        GenericMsg { payload: &[0], ..GenericMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST) };
    let messages: [Result<Vec<u8>, rwf::EncodeError>; 8] = [
        LoginRequest::consumer(b"user").to_vec(),
        DirectoryRequest::all(2).to_vec(),
        item(5, b"A").to_vec(),
        batch.to_vec(),
        ItemRequest { pause: true, ..item(5, b"A") }.to_vec(),
        post.to_vec(),
        generic.to_vec(),
        ItemClose::stream(Domain::MARKET_PRICE, 11).to_vec(),
    ];
    messages.into_iter().map(|message| message.expect("legal")).collect()
}

/// Each stream is where it is said to be, those that get updates first.
fn assert_is_in_order(client: &Client) {
    assert_eq!(client.open.len(), client.places.len());
    for (at, open) in client.open.iter().enumerate() {
        assert_eq!(client.places[&open.stream_id], at);
        assert_eq!(!open.waits && !open.is_paused, at < client.live);
    }
}

#[test]
fn streams_that_get_updates_stand_before_the_others_whatever_happens_to_them() {
    testkit::for_each_seed!(0..50, |seed| {
        let (mut core, _) = core(&[]);
        let client = core.clients.get_mut(&CONNECTION).expect("it is there");
        let mut rng = Rng::new(seed);
        for _ in 0..200 {
            let stream_id = rng.below(20) as i32;
            match rng.below(5) {
                0 if !client.places.contains_key(&stream_id) => {
                    let shape = templates::WHOLE;
                    client.add(Open { stream_id, shape, updates: 0, waits: true, is_paused: false });
                }
                1 => {
                    let was_there = client.places.contains_key(&stream_id);
                    assert_eq!(client.close(stream_id), was_there);
                }
                2 => _ = client.change(stream_id, |stream| stream.waits = false),
                3 => _ = client.change(stream_id, |stream| stream.is_paused = true),
                _ => _ = client.change(stream_id, |stream| stream.is_paused = false),
            }
            assert_is_in_order(client);
        }
    });
}

#[test]
fn a_session_is_served_and_counted() {
    let (mut core, mut outbox) = core(&[]);
    for message in session() {
        assert!(say(&mut core, &mut outbox, &message));
    }
    let counts = &core.counts;
    assert_eq!((counts.logins, counts.requests, counts.refused, counts.unusable), (1, 5, 0, 0));
    assert_eq!((counts.posts, counts.posts_reflected, counts.generics, counts.closes), (1, 1, 1, 1));
    let client = &core.clients[&CONNECTION];
    assert_eq!((client.open.len(), client.places.len()), (3, 3));
    assert_is_in_order(client);
    let whole = client.open.iter().filter(|open| open.shape == templates::WHOLE).count();
    assert_eq!(whole, 1, "those of the batch have a view");
}

#[test]
fn nothing_is_served_before_the_login_and_streams_are_bounded() {
    let (mut core, mut outbox) = core(&["--open-limit", "2"]);
    let messages = session();
    assert!(say(&mut core, &mut outbox, &messages[2]));
    assert_eq!((core.counts.requests, core.counts.refused), (0, 1));
    for message in &messages[..4] {
        assert!(say(&mut core, &mut outbox, message));
    }
    assert_eq!((core.counts.requests, core.counts.refused), (4, 1 + 2));
    assert_eq!(core.clients[&CONNECTION].open.len(), 2);
}

#[test]
fn any_message_of_a_consumer_is_borne() {
    testkit::for_each_seed!(0..300, |seed| {
        let (mut core, mut outbox) = core(&["--open-limit", "50"]);
        let (mut rng, messages) = (Rng::new(seed), session());
        say(&mut core, &mut outbox, &messages[0]);
        for _ in 0..40 {
            let mut message = messages[rng.below(messages.len() as u64) as usize].clone();
            for _ in 0..rng.below(4) {
                let at = rng.below(message.len() as u64) as usize;
                match rng.below(3) {
                    0 => message[at] = rng.next_u64() as u8,
                    1 => message.truncate(at.max(1)),
                    _ => message.insert(at, rng.next_u64() as u8),
                }
            }
            say(&mut core, &mut outbox, &message);
        }
        let client = &core.clients[&CONNECTION];
        assert!(client.open.len() <= 50 && client.images.len() <= 51);
        assert_is_in_order(client);
    });
}
