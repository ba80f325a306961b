//! LBT-RM by AF_XDP between two hosts (network namespaces); skipped, and said so, without root.

use std::io::Write;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use net::{Interest, Poller, Token};
use testkit::hosts::{FAR, Lab, NEAR};
use tickcast_messaging::{
    AfXdpMode, Carrier, Context, Handler, LbtrmConfig, Message, MessagingConfig, ReceiverOptions,
    SourceOptions, Wait,
};

const TOPIC: &str = "px.af_xdp";
const WATCHDOG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Heard(Vec<Vec<u8>>);

impl Handler for Heard {
    fn on_message(&mut self, message: &Message<'_>) {
        self.0.push(message.payload.to_vec());
    }
}

fn hosts() -> Option<Lab> {
    let lab = Lab::new(1);
    if let Err(why) = &lab {
        // Not `eprintln!`, which the test harness keeps to itself.
        let _ = writeln!(std::io::stderr(), "SKIPPED AF_XDP: {why}");
    }
    lab.ok()
}

/// On the host of the calling thread.
fn context(interface: Ipv4Addr, mode: AfXdpMode, wait: Wait) -> Context {
    Context::standalone(&config(interface, mode, wait)).expect("the interface is free")
}

fn config(interface: Ipv4Addr, mode: AfXdpMode, wait: Wait) -> MessagingConfig {
    MessagingConfig {
        interface: interface.into(),
        ttl: 1,
        wait,
        lbtrm: LbtrmConfig { carrier: Carrier::AfXdp, af_xdp_mode: mode, ..LbtrmConfig::default() },
        ..MessagingConfig::default()
    }
}

/// Turns of both, each on its host, at least one, until so many messages have come.
fn turns(lab: &Lab, near: &mut Context, far: &mut Context, heard: &mut Heard, count: usize) {
    let began = Instant::now();
    loop {
        lab.to_near().expect("it is there");
        near.poll(&mut Heard::default()).expect("the poller works");
        lab.to_far().expect("it is there");
        far.poll(heard).expect("the poller works");
        if heard.0.len() >= count {
            return;
        }
        assert!(began.elapsed() < WATCHDOG, "{} of {count} messages", heard.0.len());
    }
}

#[test]
fn a_poller_knows_of_the_socket_only_when_its_thread_is_about_to_sleep() {
    let Some(lab) = hosts() else { return };
    for (mode, wait) in [(AfXdpMode::Generic, Wait::Spin), (AfXdpMode::Native, Wait::Block)] {
        lab.to_near().expect("it is there");
        let mut near = context(NEAR, mode, wait);
        let source = near.create_source(TOPIC, &SourceOptions::default()).expect("a free port");
        lab.to_far().expect("it is there");
        let mut far = context(FAR, mode, wait);
        far.create_receiver(TOPIC, &ReceiverOptions::default()).expect("a new topic");
        let mut heard = Heard::default();
        let began = Instant::now();
        while heard.0.is_empty() {
            assert!(began.elapsed() < WATCHDOG, "{mode:?}: no message has come");
            near.send(source, &[b"hello"]).expect("there is room");
            turns(&lab, &mut near, &mut far, &mut heard, 0);
        }
        let mut poller = Poller::new().expect("descriptors are left");
        poller.registrar().add(far.descriptor(), Token(1), Interest::Read).expect("it can be polled");
        let mut is_readable =
            |timeout| poller.wait(Some(timeout)).expect("the poller works").next().is_some();
        // Nobody sends anything but what is flushed here.
        while is_readable(Duration::ZERO) {
            far.poll(&mut heard).expect("the poller works");
        }
        let count = heard.0.len();
        near.send(source, &[b"news"]).expect("there is room");
        near.flush();
        assert!(
            !is_readable(Duration::ZERO),
            "{wait:?}: each datagram wakes the poller of a thread that spins"
        );
        let _ = far.until_wakeup();
        assert!(is_readable(WATCHDOG), "{wait:?}: nothing would wake a thread that sleeps");
        turns(&lab, &mut near, &mut far, &mut heard, count + 1);
        assert_eq!(heard.0.last().map(Vec::as_slice), Some(&b"news"[..]), "{mode:?}");
    }
}

#[test]
fn encrypted_messages_come_by_af_xdp() {
    let Some(lab) = hosts() else { return };
    let keys = Some(format!("{}/tests/common/payload.keys", env!("CARGO_MANIFEST_DIR")));
    let encrypting = |interface| {
        let base = config(interface, AfXdpMode::Generic, Wait::Spin);
        MessagingConfig { lbtrm: LbtrmConfig { encryption_key_file: keys.clone(), ..base.lbtrm }, ..base }
    };
    lab.to_near().expect("it is there");
    let mut near = Context::standalone(&encrypting(NEAR)).expect("the interface is free");
    let source = near.create_source(TOPIC, &SourceOptions::default()).expect("a free port");
    lab.to_far().expect("it is there");
    let mut far = Context::standalone(&encrypting(FAR)).expect("the interface is free");
    far.create_receiver(TOPIC, &ReceiverOptions::default()).expect("a new topic");
    let (mut heard, began) = (Heard::default(), Instant::now());
    while heard.0.len() < 100 {
        assert!(began.elapsed() < WATCHDOG, "{} messages have come", heard.0.len());
        near.send(source, &[b"secret"]).expect("there is room");
        turns(&lab, &mut near, &mut far, &mut heard, 0);
    }
    let counters = &far.counters().receiver;
    assert_eq!((counters.dgrams_undeciphered.get(), counters.dgrams_not_encrypted.get()), (0, 0));
}
