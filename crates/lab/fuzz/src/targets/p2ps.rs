use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use counters::table::PointToPoint as Counters;
use market::backbone::LinkUp;
use market::p2ps::{
    ClientId, ClientProfile, PointToPoint, ServerConfig, ServerNotice, ServerSink, SourceId, UpstreamSink,
    Watcher,
};
use rdm::ToVec;
use rdm::login::LoginRequest;
use rwf::dictionary::Dictionary;
use rwf::{Msg, MsgClass, peek};
use units::Nanos;

use crate::Outcome;
use crate::input::Input;

const CLIENT: ClientId = ClientId(7);
/// Another client, which must not notice.
const BYSTANDER: ClientId = ClientId(8);
/// What is admitted in one go here, in bytes, and what each answer counts beside its own.
const ADMITTED_BYTES: usize = 64 << 10;
const ANSWER_BYTES: usize = 512;
/// The most that a step brings which was begun within that: a part of a dictionary, or the answer to one item.
const STEP_BYTES: usize = 64 << 10;
/// The most answers to a message beyond one for each of its bytes: the parts of a dictionary, in the smallest parts.
const PARTS_MAX: usize = 4096;
/// Enough for a dictionary in several goes.
const FIELD_COUNT: i16 = 3_000;

static DICTIONARY: LazyLock<Arc<Dictionary>> = LazyLock::new(|| {
    let mut dictionary = super::DICTIONARY.clone();
    let mut text = String::new();
    for id in 20_000..20_000 + FIELD_COUNT {
        writeln!(text, r#"MADE_{id} "A FIELD OF THE FUZZER {id}" {id} NULL PRICE 17 REAL64 7"#)
            .expect("a text");
    }
    dictionary.load_fields(text.as_bytes()).expect("sound lines");
    Arc::new(dictionary)
});
static COUNTERS: LazyLock<Arc<Counters>> = LazyLock::new(Arc::default);

/// Input: whether the client logs in first (odd), then its messages behind `u16` lengths, between which time
/// passes.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut input = Input::new(input);
    let mut core = PointToPoint::new(1, ServerConfig::default(), DICTIONARY.clone(), COUNTERS.clone());
    let mut answers = Answers::default();
    let login = LoginRequest::consumer(b"someone").to_vec().expect("legal");
    for client in [CLIENT, BYSTANDER] {
        core.on_client_connected(client, ClientProfile::default());
    }
    core.on_client_message(Nanos::ZERO, BYSTANDER, &login, &mut answers).expect("a good login");
    if input.u8() % 2 == 1 {
        core.on_client_message(Nanos::ZERO, CLIENT, &login, &mut answers).expect("a good login");
    }
    answers = Answers::default();
    let (mut now, mut end) = (Nanos::ZERO, None);
    while !input.is_empty() && end.is_none() {
        let message = input.chunk();
        answers.count = 0;
        answers.spent = 0;
        end = core.on_client_message(now, CLIENT, message, &mut answers).err();
        let (most, mut steps) = (message.len() + PARTS_MAX, 0);
        while core.is_busy(CLIENT) {
            answers.spent = 0;
            core.go_on(now, CLIENT, &mut answers);
            steps += 1;
            assert!(steps <= most, "the request of {} bytes does not end", message.len());
        }
        assert!(answers.count <= most, "{} answers to {} bytes", answers.count, message.len());
        now = Nanos(now.0 + 1_000_000_000);
        answers.spent = 0;
        core.on_wakeup(now, &mut answers);
    }
    assert!(core.is_logged_in(BYSTANDER), "the other client stays");
    core.on_client_closed(now, CLIENT, &mut answers);
    assert_eq!(core.clients_after(None).count(), 1);
    match end {
        Some(error) => Outcome::refused((error, answers.classes)),
        None => Outcome::accepted(answers.classes),
    }
}

/// What goes to the client.
#[derive(Default)]
struct Answers {
    count: usize,
    /// Since the front end has last called.
    spent: usize,
    /// A bit for each class of message.
    classes: u16,
}

impl ServerSink for Answers {
    fn send(&mut self, client: ClientId, msg: &[u8]) {
        let is_round_trip = peek(msg).is_ok_and(|head| head.class == MsgClass::Generic);
        assert!(client == CLIENT || client == BYSTANDER && is_round_trip || self.count == 0, "{client:?}");
        let parsed = Msg::parse(msg).expect("what is sent is legal");
        self.classes |= 1 << parsed.class() as u16;
        self.count += 1;
        self.spent += msg.len() + ANSWER_BYTES;
        // What a message or a step of a continuation may cost others, whatever it says.
        assert!(self.spent <= ADMITTED_BYTES + STEP_BYTES, "{} bytes in one go", self.spent);
    }

    fn admits_more(&mut self, _: ClientId) -> bool {
        self.spent < ADMITTED_BYTES
    }

    fn fan_out(&mut self, watchers: &[Watcher], msg: &[u8]) {
        watchers.iter().for_each(|watcher| self.send(watcher.client, msg));
    }
}

impl UpstreamSink for Answers {
    fn subscribe(&mut self, _: &str) {}
    fn unsubscribe(&mut self, _: &str) {}
    fn connect(&mut self, _: u64, _: SourceId) {}
    fn disconnect_link(&mut self, _: u64) {}
    fn to_instance(&mut self, _: u64, _: &LinkUp<'_>) {}
    fn notice(&mut self, _: &ServerNotice<'_>) {}
}
