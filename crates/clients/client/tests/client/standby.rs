//! A consumer with several servers: who is the active one, and what the application sees of a switch.

use std::sync::Arc;
use std::time::Duration;

use rdm::login::{Features, LoginRequest, LoginStatus};
use rwf::{
    DataState, Domain, Msg, MsgClass, Real, RefreshMsg, RequestMsg, State, StateCode, StreamState, Value,
};
use tickcast_client::{
    ItemHandle, ItemRequestSpec, ItemView, OwnedEvent, PostSpec, StandbyMode, SubscribeError,
    WarmStandbyConfig,
};
use units::Rng;

use crate::group::{Group, group, role};
use crate::world::{Door, dictionary, fields, image, service, status};

const SECOND: Duration = Duration::from_secs(1);

/// Two servers, the item I on stream 3 at both, image 10 delivered.
fn pair(change: impl FnOnce(&mut WarmStandbyConfig)) -> (Group, ItemHandle) {
    let mut group = group(2, change);
    let handle = group.item("I");
    group.settle();
    for server in 0..2 {
        assert_eq!(group.server(server).requests(), [(3, "I".into())]);
        group.refresh(server, 3, 10);
    }
    let story = group.story();
    assert_eq!(story.last().map(String::as_str), Some("I refresh open/ok 10"), "{story:?}");
    (group, handle)
}

#[test]
fn both_servers_are_asked_and_what_the_standby_sends_is_not_told() {
    let mut group = group(2, |_| ());
    let handle = group.item("I");
    group.settle();
    assert_eq!(group.ends[1].connects, ["b:2"]);
    let words = group.words();
    assert_eq!(words.iter().filter(|word| word.starts_with("active")).collect::<Vec<_>>(), ["active a:1"]);
    assert_eq!(words.iter().filter(|word| word.starts_with("service 1 S")).count(), 1, "the active's alone");
    for server in [1, 0] {
        assert_eq!(group.server(server).requests(), [(3, "I".into())]);
        group.refresh(server, 3, 10);
        group.update(server, 3, 11);
    }
    assert_eq!(group.story(), ["I refresh open/ok 10", "I update open/ok 11"]);
    assert_eq!(group.counts().updates_withheld.get(), 1);
    assert_eq!(group.core.image(handle).and_then(market_seq), Some(11));
    assert_eq!(group.core.find("S", Domain::MARKET_PRICE, "I"), Some(handle));
    assert_eq!(group.core.item_name(handle), Some(("S", "I")));
    let again = group.core.subscribe(&ItemRequestSpec::new("S", "I"));
    assert_eq!(again, Err(SubscribeError::AlreadyOpen(handle)));
}

fn market_seq(image: &market::CachedItem) -> Option<u32> {
    image.seq_num()
}

#[test]
fn when_the_active_server_is_lost_the_image_of_the_standby_is_told_and_its_updates_follow() {
    let (mut group, handle) = pair(|_| ());
    group.update(0, 3, 11);
    group.update(1, 3, 11);
    group.update(1, 3, 12);
    group.story();
    group.kill(0);
    assert_eq!(group.story(), ["active b:2 instead of a:1", "I refresh open/ok 12"]);
    group.update(1, 3, 13);
    assert_eq!(group.story(), ["I update open/ok 13"]);
    assert_eq!(group.core.item_state(handle).map(|state| state.data), Some(DataState::Ok));
    assert_eq!((group.counts().switches.get(), group.counts().images_told.get()), (1, 1));
    assert_eq!(group.core.active_for("S"), 1);
}

#[test]
fn the_server_that_comes_back_is_the_standby_and_takes_over_in_its_turn() {
    let (mut group, _) = pair(|_| ());
    group.kill(0);
    group.revive(0);
    assert_eq!(group.server(0).requests(), [(3, "I".into())]);
    group.refresh(0, 3, 20);
    group.story();
    group.update(0, 3, 21);
    assert_eq!(group.story(), [""; 0]);
    group.kill(1);
    assert_eq!(group.story(), ["active a:1 instead of b:2", "I refresh open/ok 21"]);
}

#[test]
fn pings_keep_the_sessions_with_all_servers_for_an_hour() {
    let (mut group, _) = pair(|_| ());
    group.advance(Duration::from_secs(3_600));
    assert_eq!(group.words(), [""; 0]);
    assert!(group.ends.iter().all(|end| end.connects.len() == 1 && end.server.is_some()));
}

#[test]
fn a_standby_that_is_behind_is_waited_for_so_that_numbers_never_go_back() {
    let (mut group, _) = pair(|_| ());
    for seq in 11..15 {
        group.update(0, 3, seq);
    }
    group.update(1, 3, 11);
    group.story();
    group.kill(0);
    group.update(1, 3, 12);
    group.update(1, 3, 13);
    assert_eq!(group.story(), ["active b:2 instead of a:1"]);
    group.update(1, 3, 14);
    group.update(1, 3, 15);
    assert_eq!(group.story(), ["I refresh open/ok 14", "I update open/ok 15"]);
    assert_eq!((group.counts().waits.get(), group.counts().waits_expired.get()), (1, 0));
}

#[test]
fn a_standby_that_stays_behind_is_believed_after_a_while() {
    let (mut group, _) = pair(|_| ());
    group.update(0, 3, 11);
    group.story();
    group.kill(0);
    assert_eq!(group.story(), ["active b:2 instead of a:1"]);
    group.advance(Duration::from_millis(499));
    assert_eq!(group.story(), [""; 0]);
    group.advance(Duration::from_millis(1));
    assert_eq!(group.story(), ["I refresh open/ok 10"]);
    assert_eq!(group.counts().waits_expired.get(), 1);
}

#[test]
fn numbers_that_are_far_apart_are_no_reason_to_wait() {
    let (mut group, _) = pair(|_| ());
    group.update(0, 3, 1_000_000);
    group.story();
    group.kill(0);
    assert_eq!(group.story(), ["active b:2 instead of a:1", "I refresh open/ok 10"]);
}

#[test]
fn when_all_servers_are_gone_items_are_suspect_until_one_is_back() {
    let (mut group, handle) = pair(|_| ());
    group.kill(1);
    assert_eq!(group.story(), [""; 0], "the loss of a standby is not the application's concern");
    group.kill(0);
    assert_eq!(group.story(), ["I status open/suspect, \"connection to the server lost\""]);
    group.revive(1);
    assert_eq!(group.story(), ["active b:2 instead of a:1"]);
    assert_eq!(group.server(1).requests(), [(3, "I".into())]);
    group.refresh(1, 3, 30);
    assert_eq!(group.story(), ["I refresh open/ok 30"]);
    assert_eq!(group.core.item_state(handle).map(|state| state.data), Some(DataState::Ok));
}

#[test]
fn an_item_that_the_standby_does_not_have_is_suspect_until_it_has() {
    let mut group = group(2, |_| ());
    group.item("I");
    group.item("J");
    group.settle();
    for (server, stream) in [(0, 3), (0, 4), (1, 4)] {
        group.refresh(server, stream, 10);
    }
    let not_found = State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NOT_FOUND, "none");
    group.say(1, &status(3, not_found));
    group.story();
    group.server(1).requests();
    group.kill(0);
    assert_eq!(
        group.story(),
        [
            "active b:2 instead of a:1",
            "I status open/suspect, \"the server that took over has no image yet\"",
            "J refresh open/ok 10",
        ]
    );
    assert_eq!(group.server(1).requests(), [(5, "I".into())]);
    group.refresh(1, 5, 12);
    assert_eq!(group.story(), ["I refresh open/ok 12"]);
}

#[test]
fn what_the_active_server_ends_has_ended_everywhere() {
    let (mut group, handle) = pair(|_| ());
    let closed = State::new(StreamState::Closed, DataState::Suspect).because(StateCode::NOT_FOUND, "gone");
    group.say(0, &status(3, closed));
    assert_eq!(group.story(), ["I status closed/suspect, not found, \"gone\", final"]);
    assert_eq!(group.server(1).closes(), [3]);
    assert_eq!((group.core.item_count(), group.core.item_state(handle)), (0, None));
    let handle = group.item("I");
    group.settle();
    assert_eq!(group.server(1).requests(), [(4, "I".into())]);
    assert!(group.core.unsubscribe(handle) && !group.core.unsubscribe(handle));
    group.settle();
    assert_eq!((group.server(0).closes(), group.server(1).closes()), (vec![4], vec![4]));
}

#[test]
fn snapshots_and_private_streams_are_the_active_servers_alone() {
    let mut group = group(2, |_| ());
    let spec = ItemRequestSpec::new("S", "P");
    group.core.subscribe(&ItemRequestSpec { private_stream: true, ..spec.clone() }).expect("new");
    group.core.subscribe(&ItemRequestSpec { streaming: false, name: "Q", ..spec }).expect("new");
    group.settle();
    assert_eq!(group.server(1).requests(), []);
    group.refresh(0, 3, 5);
    group.story();
    group.kill(0);
    assert_eq!(
        group.story(),
        [
            "active b:2 instead of a:1",
            "P status open/suspect, \"the server that took over has no image yet\"",
        ]
    );
    assert_eq!(group.server(1).requests(), [(3, "P".into()), (4, "Q".into())]);
    group.refresh(1, 3, 6);
    group.refresh(1, 4, 7);
    assert_eq!(group.story(), ["P refresh open/ok 6", "Q refresh non-streaming/ok, final 7"]);
}

#[test]
fn the_first_server_is_waited_for_at_the_start_and_the_next_one_taken_if_it_fails() {
    let mut group = group(3, |_| ());
    group.ends[0].door = Door::Silent;
    group.item("I");
    group.settle();
    assert_eq!(group.story(), [""; 0]);
    assert!(group.core.is_logged_in(), "at the others");
    group.advance(5 * SECOND);
    assert_eq!(group.story(), ["active b:2"]);
}

#[test]
fn the_preferred_server_takes_over_again_when_it_has_the_items() {
    let (mut group, _) = pair(|standby| standby.returns = true);
    group.kill(0);
    group.story();
    group.revive(0);
    assert_eq!(group.story(), [""; 0], "it has no images yet");
    group.refresh(0, 3, 12);
    group.advance(Duration::from_millis(250));
    assert_eq!(group.story(), ["active a:1 instead of b:2", "I refresh open/ok 12"]);
    assert_eq!((group.counts().switches.get(), group.counts().returns.get()), (2, 1));
}

#[test]
fn service_based_a_service_that_goes_down_moves_alone() {
    let by_service = |standby: &mut WarmStandbyConfig| {
        standby.mode = StandbyMode::Service;
        standby.servers[0].services = vec!["T".to_owned()];
    };
    let mut group = group(2, by_service);
    for end in &mut group.ends {
        end.manners.services = vec![service(1, "S"), service(2, "T")];
    }
    group.item("I");
    group.core.subscribe(&ItemRequestSpec::new("T", "J")).expect("new");
    group.settle();
    let story = group.story();
    assert_eq!(story, ["active a:1 for S", "active b:2 for T"]);
    for server in 0..2 {
        group.refresh(server, 3, 10);
        group.refresh(server, 4, 20);
    }
    assert_eq!(group.story(), ["I refresh open/ok 10", "J refresh open/ok 20"]);
    group.turn_service(0, false);
    assert_eq!(group.story(), ["active b:2 instead of a:1 for S", "I refresh open/ok 10"]);
    assert!(group.core.directory(0).is_some_and(|known| known.service_count() == 2), "it stays connected");
    group.turn_service(1, false);
    assert_eq!(group.story(), ["I status open/suspect, \"service is down\""]);
    group.turn_service(0, true);
    assert_eq!(group.story(), ["active a:1 instead of b:2 for S"]);
    group.refresh(0, 5, 11);
    group.update(1, 4, 21);
    assert_eq!(group.story(), ["I refresh open/ok 11", "J update open/ok 21"]);
}

#[test]
fn login_based_a_service_that_goes_down_makes_items_suspect() {
    let (mut group, _) = pair(|_| ());
    group.turn_service(0, false);
    assert_eq!(group.story(), ["I status open/suspect, \"service is down\""]);
    assert_eq!(group.counts().switches.get(), 0);
}

#[test]
fn a_login_that_ends_at_the_active_server_is_a_loss_like_any_other() {
    let (mut group, _) = pair(|_| ());
    let request = LoginRequest::consumer(b"ada");
    group.say(0, &LoginStatus::reject(&request, StateCode::NOT_ENTITLED, "out"));
    assert_eq!(group.story(), ["active b:2 instead of a:1", "I refresh open/ok 10"]);
    assert!(!group.core.is_stopped(), "one goes on");
}

#[test]
fn view_priority_and_pause_reach_both_servers_and_what_comes_back_later() {
    let mut group = group(2, |_| ());
    for end in &mut group.ends {
        let features =
            Features { view_requests: Some(true), optimized_pause_resume: Some(true), ..Features::default() };
        end.manners.features = features;
    }
    let handle = group.item("I");
    group.settle();
    for server in 0..2 {
        group.server(server).requests();
        group.refresh(server, 3, 10);
    }
    group.core.set_view(handle, Some(ItemView::from([22]))).expect("announced");
    group.core.pause(handle).expect("announced");
    group.settle();
    let asked = |group: &mut Group, server: usize| {
        let inbox = std::mem::take(&mut group.server(server).inbox);
        let requests = inbox.iter().filter(|bytes| matches!(Msg::parse(bytes), Ok(Msg::Request(_))));
        let flags = |bytes: &Vec<u8>| {
            let request = RequestMsg::parse(bytes).expect("legal");
            (request.stream_id, request.view, request.pause)
        };
        requests.map(flags).collect::<Vec<_>>()
    };
    assert_eq!(asked(&mut group, 0), [(3, true, true)]);
    assert_eq!(asked(&mut group, 1), [(3, true, true)]);
    group.kill(1);
    group.revive(1);
    assert_eq!(asked(&mut group, 1), [(3, true, true)]);
}

#[test]
fn posts_go_to_the_active_server_and_are_answered_once_with_numbers_of_one_sequence() {
    let mut group = group(2, |_| ());
    for end in &mut group.ends {
        end.manners.features = Features { omm_post: Some(true), ..Features::default() };
    }
    let handle = group.item("I");
    group.settle();
    for server in 0..2 {
        group.refresh(server, 3, 10);
        group.server(server).inbox.clear();
    }
    let post = |group: &mut Group| {
        let spec = PostSpec { tag: 7, ..PostSpec::default() };
        let id = group.core.post(group.now, handle, &spec, |w| w.field_list(|_| ())).expect("open");
        group.settle();
        id.0
    };
    group.words();
    assert_eq!((post(&mut group), group.server(0).inbox.len(), group.server(1).inbox.len()), (1, 1, 0));
    group.kill(0);
    assert!(group.words().contains(&"post 1 of 7 on stream: Lost".to_owned()));
    assert_eq!((post(&mut group), group.server(1).inbox.len()), (2, 1));
}

#[test]
fn servers_that_want_to_know_their_role_are_told_before_they_are_asked() {
    let mut group = group(2, |standby| standby.tells_roles = true);
    for end in &mut group.ends {
        end.manners.features = Features { standby: Some(true), standby_mode: Some(3), ..Features::default() };
    }
    group.item("I");
    group.settle();
    for (server, wanted) in [(0, 0), (1, 1)] {
        let first = group.server(server).inbox.first().and_then(|bytes| role(bytes));
        assert_eq!(first, Some((Domain::LOGIN, wanted)), "server {server}");
        assert_eq!(group.roles(server), [(Domain::LOGIN, wanted)]);
    }
    group.refresh(0, 3, 10);
    // A standby that knows it answers without data.
    group.say(1, &RefreshMsg { payload: &fields(0), ..image(3, 0) });
    group.story();
    group.kill(0);
    assert_eq!(
        group.story(),
        [
            "active b:2 instead of a:1",
            "I status open/suspect, \"the server that took over has no image yet\"",
        ]
    );
    let inbox = group.server(1).inbox.clone();
    assert_eq!(role(&inbox[0]), Some((Domain::LOGIN, 0)), "the role first");
    assert_eq!(rwf::peek(&inbox[1]).map(|head| (head.class, head.stream_id)), Ok((MsgClass::Request, 3)));
    assert_eq!(group.counts().images_requested.get(), 1);
    group.advance(SECOND);
    assert_eq!(group.story(), [""; 0], "what it sent as a standby is no image");
    group.refresh(1, 3, 12);
    assert_eq!(group.story(), ["I refresh open/ok 12"]);
    group.revive(0);
    assert_eq!(group.roles(0), [(Domain::LOGIN, 1)]);
    let told = group.core.session_counters(1).map(|counts| counts.roles_told.get());
    assert_eq!(told, Some(2));
}

#[test]
fn service_based_roles_are_told_for_each_service() {
    let mut group = group(2, |standby| (standby.tells_roles, standby.mode) = (true, StandbyMode::Service));
    group.ends[1].manners.features =
        Features { standby: Some(true), standby_mode: Some(2), ..Features::default() };
    group.item("I");
    group.settle();
    assert_eq!((group.roles(0), group.roles(1)), (vec![], vec![(Domain::SOURCE, 1)]));
    group.refresh(0, 3, 10);
    group.turn_service(0, false);
    assert_eq!(group.roles(1), [(Domain::SOURCE, 0)]);
}

#[test]
fn a_stopped_group_tells_of_each_loss_and_begins_again() {
    let (mut group, _) = pair(|_| ());
    group.story();
    let (now, told) = (group.now, &mut group.told);
    group.core.stop(now, &mut |event| told.push(event.into()));
    assert_eq!(group.story(), ["I status open/suspect, \"connection to the server lost\""]);
    assert!(group.core.is_stopped());
    group.core.restart(now);
    group.settle();
    group.refresh(0, 3, 11);
    assert_eq!(group.story(), ["I refresh open/ok 11"]);
}

#[test]
fn items_of_a_batch_go_in_one_message_to_each_server() {
    let mut group = group(2, |_| ());
    for end in &mut group.ends {
        let batches = Some(rdm::login::BatchSupport(5));
        end.manners.features = Features { batch_requests: batches, ..Features::default() };
    }
    let handles = group.core.subscribe_all(&ItemRequestSpec::new("S", ""), &["A", "B", "C"]);
    let handles: Vec<ItemHandle> = handles.into_iter().map(|handle| handle.expect("new")).collect();
    group.settle();
    assert_eq!((group.server(0).inbox.len(), group.server(1).inbox.len()), (1, 1));
    assert_eq!(group.core.unsubscribe_all(&handles), 3);
    group.settle();
    assert_eq!((group.server(0).closes(), group.server(1).closes()), (vec![4, 5, 6], vec![4, 5, 6]));
}

/// Two servers that send one feed of numbered changes, each with its own delay, lose their connections, die
/// and come back at random. Whatever happens, an item's numbers never go back, each update follows the
/// message before, and at the end the application has the truth.
#[test]
fn nothing_is_lost_or_doubled_whatever_happens_to_the_servers() {
    let (mut switches, mut waits) = (0, 0);
    testkit::for_each_seed!(0..200, |seed| {
        let group = Chance::new(seed).run();
        switches += group.counts().switches.get();
        waits += group.counts().waits.get();
    });
    assert!(
        testkit::repeat::is_one_seed() || switches > 400 && waits > 40,
        "{switches} switches, {waits} waits"
    );
}

struct Chance {
    rng: Rng,
    group: Group,
    /// What the feed has sent.
    last: u32,
    /// What each server has passed on, and the stream of the item there if it is open.
    servers: [(u32, Option<i32>); 2],
    /// What the application has: the number, and whether it is good.
    seen: Option<(u32, bool)>,
    seed: u64,
}

impl Chance {
    fn new(seed: u64) -> Chance {
        let mut rng = Rng::new(seed);
        let returns = rng.below(2) == 0;
        // Longer than the run: a server that is behind is always waited for.
        let mut group = group(2, |standby| (standby.returns, standby.catch_up_ms) = (returns, 60_000));
        group.core.set_dictionary(&Arc::new(dictionary()));
        group.item("I");
        group.settle();
        Chance { rng, group, last: 10, servers: [(10, None); 2], seen: None, seed }
    }

    fn run(mut self) -> Group {
        for _ in 0..300 {
            let server = self.rng.below(2) as usize;
            match self.rng.below(40) {
                0 => self.group.kill(server),
                1..=3 => self.group.ends[server].door = Door::Open,
                4..=12 => self.last += 1,
                13..=14 => {
                    let span = Duration::from_millis(self.rng.below(400));
                    self.group.advance(span);
                }
                _ => self.pass_on(server),
            }
            self.look();
        }
        for server in 0..2 {
            self.group.ends[server].door = Door::Open;
        }
        self.group.advance(5 * SECOND);
        for _ in 0..=self.last {
            (0..2).for_each(|server| self.pass_on(server));
        }
        self.group.advance(5 * SECOND);
        (0..2).for_each(|server| self.pass_on(server));
        self.look();
        assert_eq!(self.seen, Some((self.last, true)), "seed {}", self.seed);
        self.group
    }

    /// A server answers the item's request, or passes on the next change.
    fn pass_on(&mut self, server: usize) {
        if self.group.ends[server].server.is_none() {
            // It is told all it has missed when it is back.
            self.servers[server] = (self.last, None);
            return;
        }
        if let Some((stream_id, _)) = self.group.server(server).requests().pop() {
            self.servers[server].1 = Some(stream_id);
            self.group.refresh(server, stream_id, self.servers[server].0);
        } else if self.servers[server].0 < self.last
            && let Some(stream_id) = self.servers[server].1
        {
            self.servers[server].0 += 1;
            let seq_num = self.servers[server].0;
            self.group.update(server, stream_id, seq_num);
        }
    }

    /// Reads what the application was told.
    fn look(&mut self) {
        let seed = self.seed;
        for event in std::mem::take(&mut self.group.told) {
            let OwnedEvent::Item(event) = event else { continue };
            let (seq, is_update) = event.view(|view| (view.seq_num(), view.is_update()));
            let is_ok = event.state.borrow().data == DataState::Ok;
            match (seq, self.seen) {
                (Some(seq), Some((before, _))) if is_update => {
                    assert_eq!(seq, before + 1, "seed {seed}: an update");
                }
                (Some(seq), Some((before, true))) => assert!(seq >= before, "seed {seed}: {seq} < {before}"),
                _ => {}
            }
            if let Some(seq) = seq {
                let bid = Value::Real(Real::decimal(seq.into(), 2));
                assert_eq!(event.field(22), Ok(Some(bid)), "seed {seed}");
            }
            let known = self.seen.map_or(0, |(before, _)| before);
            self.seen = Some((seq.unwrap_or(known), is_ok));
        }
    }
}
