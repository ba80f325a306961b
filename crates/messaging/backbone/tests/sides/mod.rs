//! The two sides of a carrier, each with a poller of its own, and what they have heard, for tests.

// Each file of tests uses its part.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use market::p2ps::{SourceId, Topic};
use net::{Poller, clock};
use tickcast_backbone::{Inlet, InletCommand, InletEvents, Notice, Outlet, OutletEvent};
use units::Nanos;

/// What one side has heard, in words.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) words: VecDeque<String>,
    /// What operators are told, which is no part of a suite.
    pub(crate) notices: Vec<String>,
}

impl Heard {
    fn note(&mut self, words: String) {
        self.words.push_back(words);
    }
}

fn text(bytes: &[u8]) -> String {
    if bytes.len() > 40 {
        format!("{} bytes", bytes.len())
    } else {
        String::from_utf8_lossy(bytes).into_owned()
    }
}

impl Heard {
    fn note_all(&mut self, events: Vec<OutletEvent>) {
        for event in events {
            self.note(match event {
                OutletEvent::Connected(peer) => format!("peer {} connected", peer.0),
                OutletEvent::Message(peer, bytes) => format!("peer {}: {}", peer.0, text(&bytes)),
                OutletEvent::Closed(peer, _) => format!("peer {} closed", peer.0),
                OutletEvent::Notice(notice) => {
                    self.on_notice(&notice);
                    continue;
                }
            });
        }
    }
}

impl InletEvents for Heard {
    fn on_source(&mut self, _: Nanos, source: SourceId, topic: Topic<'_>, _: u64) {
        self.note(match topic {
            Topic::Directory => format!("source {} directory", source.0),
            Topic::Service(name) => format!("source {} service {name}", source.0),
        });
    }
    fn on_source_ended(&mut self, _: Nanos, source: SourceId) {
        self.note(format!("source {} ended", source.0));
    }
    fn on_stream_message(&mut self, _: Nanos, source: SourceId, bytes: &[u8]) {
        self.note(format!("stream {}: {}", source.0, text(bytes)));
    }
    fn on_link_up(&mut self, _: Nanos, instance: u64) {
        self.note(format!("link {instance} up"));
    }
    fn on_link_down(&mut self, _: Nanos, instance: u64) {
        self.note(format!("link {instance} down"));
    }
    fn on_link_message(&mut self, _: Nanos, instance: u64, bytes: &[u8]) {
        self.note(format!("link {instance}: {}", text(bytes)));
    }
    fn on_notice(&mut self, notice: &Notice) {
        self.notices.push(notice.text.clone());
    }
}

/// How the suite gets the two sides of a carrier.
pub(crate) trait Carrier {
    type Outlet: Outlet;
    type Inlet: Inlet;
    fn outlet(&self, poller: &Poller) -> io::Result<Self::Outlet>;
    fn inlet(&self, poller: &Poller) -> io::Result<Self::Inlet>;
}

pub(crate) struct Distributor<O> {
    pub(crate) outlet: O,
    pub(crate) poller: Poller,
    pub(crate) heard: Heard,
}

pub(crate) struct Server<I> {
    pub(crate) inlet: I,
    pub(crate) poller: Poller,
    pub(crate) heard: Heard,
}

const TURN: Duration = Duration::from_millis(1);

impl<O: Outlet> Distributor<O> {
    pub(crate) fn new<C: Carrier<Outlet = O>>(carrier: &C) -> Distributor<O> {
        let poller = Poller::new().expect("a descriptor is free");
        Distributor { outlet: carrier.outlet(&poller).expect("it starts"), poller, heard: Heard::default() }
    }

    pub(crate) fn turn(&mut self) {
        let mut events = Vec::new();
        self.outlet.on_wakeup(clock::monotonic(), &mut events);
        let ready: Vec<_> = self.poller.wait(Some(TURN)).expect("the poller works").collect();
        for one in ready {
            self.outlet.on_ready(clock::monotonic(), one, &mut events);
        }
        self.heard.note_all(events);
        self.outlet.flush(clock::monotonic());
    }
}

impl<I: Inlet> Server<I> {
    pub(crate) fn new<C: Carrier<Inlet = I>>(carrier: &C) -> Server<I> {
        let poller = Poller::new().expect("a descriptor is free");
        Server { inlet: carrier.inlet(&poller).expect("it starts"), poller, heard: Heard::default() }
    }

    pub(crate) fn turn(&mut self) {
        self.inlet.on_wakeup(clock::monotonic(), &mut self.heard);
        let ready: Vec<_> = self.poller.wait(Some(TURN)).expect("the poller works").collect();
        for one in ready {
            self.inlet.on_ready(clock::monotonic(), one, &mut self.heard);
        }
        self.inlet.flush(clock::monotonic());
    }

    pub(crate) fn execute(&mut self, command: InletCommand) {
        self.inlet.execute(clock::monotonic(), command, &mut self.heard);
    }
}

/// Runs both until something is heard, and returns it.
pub(crate) fn next<O: Outlet, I: Inlet>(
    distributor: &mut Distributor<O>,
    server: &mut Server<I>,
    of_server: bool,
) -> String {
    loop {
        let heard = if of_server { &mut server.heard } else { &mut distributor.heard };
        if let Some(words) = heard.words.pop_front() {
            return words;
        }
        distributor.turn();
        server.turn();
    }
}
