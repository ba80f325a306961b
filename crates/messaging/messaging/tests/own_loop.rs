//! Contexts in a loop of somebody else, with its poller: nothing that comes keeps them from returning to it.

mod common;

use std::time::Duration;

use common::{Heard, Party, Patience, config, party};
use net::{Poller, Ready, clock};
use tickcast_messaging::{
    Context, ContextCounters, Handler, Message, MessagingConfig, ReceiverOptions, SendError, Source,
    Transport,
};

/// Somebody's loop with a context in it.
struct Loop<H> {
    poller: Poller,
    context: Context,
    heard: H,
}

impl<H: Handler> Loop<H> {
    fn new(config: &MessagingConfig, heard: H) -> Loop<H> {
        let poller = Poller::new().expect("there are descriptors");
        let (seed, now) = (clock::seed(), clock::monotonic());
        let context = Context::new(config, poller.registrar(), 1, seed, now, ContextCounters::default());
        let mut context = context.expect("the loopback interface has multicast");
        context.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
        Loop { poller, context, heard }
    }

    fn turn(&mut self) {
        let ready = self.poller.wait(Some(Duration::from_millis(1))).expect("the poller works");
        let ready: Vec<Ready> = ready.collect();
        let now = clock::monotonic();
        for one in ready {
            self.context.on_ready(now, one, &mut self.heard);
        }
        if self.context.next_wakeup() <= now {
            self.context.on_wakeup(now, &mut self.heard);
        }
        self.context.flush();
    }
}

fn by_ipc(test: u8) -> MessagingConfig {
    MessagingConfig { transport: Transport::LbtIpc, ..config(test) }
}

/// Sends until something is heard.
fn meet<H: Handler>(a: &mut Party, source: Source, b: &mut Loop<H>, has_heard: impl Fn(&H) -> bool) {
    let patience = Patience::new();
    while !has_heard(&b.heard) {
        assert!(patience.lasts(), "they do not meet");
        match a.context.send(source, &[b"hello"]) {
            Ok(_) | Err(SendError::WouldBlock) => a.context.flush(),
            Err(error) => panic!("{error}"),
        }
        a.turn();
        b.turn();
    }
}

#[test]
fn a_ring_whose_source_goes_without_a_farewell_ends() {
    let config = by_ipc(1);
    let (mut a, mut b) = (party(&config), Loop::new(&config, Heard::default()));
    let source = a.source("px");
    meet(&mut a, source, &mut b, |heard| !heard.payloads.is_empty());
    a.context.abandon();
    let patience = Patience::new();
    while b.heard.ends.is_empty() {
        assert!(patience.lasts(), "it does not end");
        b.turn();
    }
    assert_eq!(b.heard.lost, 0);
}

/// Few of them are a turn.
static LONG: [u8; 60_000] = [7; 60_000];

/// Sends two messages for each that comes, so that there is always one more to read.
struct Echo {
    context: Context,
    source: Option<Source>,
    count: u64,
}

impl Handler for Echo {
    fn on_message(&mut self, _: &Message<'_>) {
        self.count += 1;
        if let Some(source) = self.source {
            // Where the ring is full there is more to read in any case.
            let _ = self.context.send(source, &[&LONG]);
            let _ = self.context.send(source, &[&LONG]);
        }
        self.context.flush();
    }
}

#[test]
fn a_source_that_writes_as_fast_as_it_is_read_does_not_keep_the_loop() {
    let config = by_ipc(2);
    let mut a = party(&config);
    let source = a.source("px");
    let other = Context::standalone(&config).expect("the loopback interface has multicast");
    let mut b = Loop::new(&config, Echo { context: other, source: None, count: 0 });
    meet(&mut a, source, &mut b, |echo| echo.count > 0);
    std::mem::swap(&mut a.context, &mut b.heard.context);
    b.heard.source = Some(source);
    b.heard.context.send(source, &[b"first"]).expect("there is room");
    b.heard.context.flush();
    let patience = Patience::new();
    let mut turns = 0;
    while turns < 5 {
        assert!(patience.lasts(), "nothing more comes");
        let before = b.heard.count;
        b.turn();
        turns += u32::from(b.heard.count > before);
    }
}

#[test]
fn who_is_told_that_nothing_is_left_has_everything_that_had_arrived() {
    let config = config(3);
    let (mut a, mut b) = (party(&config), Loop::new(&config, Heard::default()));
    let source = a.source("px");
    meet(&mut a, source, &mut b, |heard| !heard.payloads.is_empty());
    let patience = Patience::new();
    // What was said until they met is out of the way.
    while b.poller.wait(Some(Duration::ZERO)).expect("the poller works").next().is_some() {
        assert!(patience.lasts(), "it never ends");
        b.turn();
    }
    let before = b.heard.payloads.len();
    for n in 0..100_u8 {
        // A datagram each.
        a.context.send(source, &[&[n]]).expect("the window has room");
        a.context.flush();
    }
    while b.heard.payloads.len() == before {
        assert!(patience.lasts(), "nothing comes");
        let ready = b.poller.wait(Some(Duration::from_millis(1))).expect("the poller works");
        let ready: Vec<Ready> = ready.collect();
        for one in ready {
            while b.context.on_ready(clock::monotonic(), one, &mut b.heard) {}
        }
    }
    assert_eq!(b.heard.payloads.len() - before, 100);
}
