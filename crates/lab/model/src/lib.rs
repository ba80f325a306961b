//! The recovery protocol of the backbone as a small model, for a checker that visits every state.
//!
//! ```
//! use stateright::{Checker, Model};
//! use tickcast_model::{Budget, Protocol};
//!
//! let budget = Budget { changes: 1, others: 0, losses: 1, kills: 0, breaks: 0 };
//! let protocol = Protocol { budget, is_uncached: true, mistake: None };
//! protocol.checker().spawn_bfs().join().assert_properties();
//! ```
//!
//! One item, which changes; two source distributors that both have it, and may be killed and started again; one
//! point-to-point server; two clients, one of which comes later. Messages of a stream stay in their order, and any may be
//! lost. A link loses nothing until it breaks. Whatever the next step is, the checker takes each that there is.
//!
//! | promise | checked in |
//! |---|---|
//! | an update is delivered in order, once, or its item is suspect before | every state ([`State::fault`]) |
//! | no image goes back | every state |
//! | who takes a value for good gets the updates that follow | every state |
//! | nothing stays suspect: every client has the truth, and knows it is good | every state in which nothing is on its way |
//!
//! It is written from `docs/protocol/backbone.md`, not from the code, and says less than the code does: no bounds of
//! memory, no time, no messages dropped at the server itself (so no image on its way can be older than a loss: links are
//! in order). What the code does is what `sim` checks, at random. Each [`Mistake`] takes one rule out of the
//! protocol; a test says that the checker then finds a run that breaks a promise, so that no rule is there for nothing.

/// The name of the property that says that a run can end well.
pub const WELL: &str = "all is well at the end";

mod instance;
mod server;

pub use instance::{Down, Instance, StreamMsg, Up, What};
pub use server::{Client, Phase, Server};

use stateright::{Model, Property};

/// A rule that is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mistake {
    /// Missing numbers are passed over.
    GapsAreIgnored,
    /// What comes behind a gap is handed on before it is known which items the gap concerns.
    NobodyWaitsForAnswers,
    /// A quiet stream does not repeat its last number.
    NoHeartbeats,
    /// An image is taken though messages about the item were dropped before its id was known.
    AnyImageJoins,
    /// Updates are dropped while the first image is on its way.
    NothingIsHeld,
    /// A stream of a new run goes on with the numbers of the one before.
    RunsAreOne,
    /// When the source distributor is lost, clients are not told.
    LossIsNotTold,
    /// A server without a cache shows an image before the messages that it has.
    EarlyImagesAreShown,
    /// A server without a cache does not merge what an image lacks.
    LateImagesAreShown,
}

/// How much may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Changes of the item.
    pub changes: u8,
    /// Messages about other items.
    pub others: u8,
    /// Stream messages that are lost.
    pub losses: u8,
    /// Source distributors that are killed.
    pub kills: u8,
    /// Links that break while both ends live.
    pub breaks: u8,
}

/// The protocol, what may happen, and what is left out.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// How much may happen.
    pub budget: Budget,
    /// The server keeps no images.
    pub is_uncached: bool,
    /// What is left out.
    pub mistake: Option<Mistake>,
}

/// All there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The item's value: how often it has changed.
    pub truth: u8,
    /// The source distributors.
    pub instances: [Instance; 2],
    /// The point-to-point server, with its clients.
    pub server: Server,
    /// What may still happen.
    pub left: Budget,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The item changes at both providers.
    Change,
    /// A source distributor publishes something about another item.
    Other(usize),
    /// It repeats the last number of its stream.
    Heartbeat(usize),
    /// The next message of its stream arrives.
    Deliver(usize),
    /// That message is lost.
    Lose(usize),
    /// The next message of the server arrives at it.
    Up(usize),
    /// Its next message to the server arrives.
    Down(usize),
    /// The server opens a link to it.
    Connect(usize),
    /// The link breaks, and both ends notice.
    Break(usize),
    /// It is killed.
    Kill(usize),
    /// It is started again.
    Restart(usize),
    /// The server notices that the run at the other end of its link is over.
    Notice(usize),
    /// The second client comes.
    Join,
}

impl State {
    /// What promise is broken, if one is.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        self.server.fault
    }

    /// Whether nothing is on its way, and the server is linked to a source distributor that lives.
    fn is_settled(&self, mistake: Option<Mistake>) -> bool {
        let is_quiet = |at: &usize| {
            let instance = &self.instances[*at];
            let is_linked = self.server.links[*at] == Some(instance.run) && instance.is_alive;
            let knows_last = mistake == Some(Mistake::NoHeartbeats) || !self.may_repeat(*at);
            instance.stream.is_empty()
                && instance.up.is_empty()
                && instance.down.is_empty()
                && (!instance.is_alive || is_linked && knows_last)
                && (instance.is_alive || self.server.links[*at].is_none())
        };
        (0..2).all(|at| is_quiet(&at)) && self.server.active.is_some()
    }

    /// Whether a source distributor has a number to repeat that the server has not heard.
    fn may_repeat(&self, at: usize) -> bool {
        let instance = &self.instances[at];
        let heard = self.server.streams[at] == (instance.run, instance.sequence + 1);
        instance.is_alive && instance.stream.is_empty() && !heard
    }

    fn is_right(&self) -> bool {
        let is_right = |client: &Client| match *client {
            Client::Absent => true,
            Client::Waiting => false,
            Client::Has { version, is_good } => is_good && version == self.truth,
        };
        self.server.clients.iter().all(is_right)
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let server = Server::new(self.is_uncached, self.mistake);
        vec![State { truth: 0, instances: Default::default(), server, left: self.budget }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.left.changes > 0 {
            actions.push(Action::Change);
        }
        if state.server.clients[1] == Client::Absent {
            actions.push(Action::Join);
        }
        for (at, instance) in state.instances.iter().enumerate() {
            let link = state.server.links[at];
            let is_linked = instance.is_alive && link == Some(instance.run);
            let steps = [
                (is_linked && state.left.others > 0, Action::Other(at)),
                (self.mistake != Some(Mistake::NoHeartbeats) && state.may_repeat(at), Action::Heartbeat(at)),
                (!instance.stream.is_empty(), Action::Deliver(at)),
                (!instance.stream.is_empty() && state.left.losses > 0, Action::Lose(at)),
                (instance.is_alive && !instance.up.is_empty(), Action::Up(at)),
                (!instance.down.is_empty(), Action::Down(at)),
                (instance.is_alive && link.is_none(), Action::Connect(at)),
                (is_linked && state.left.breaks > 0, Action::Break(at)),
                (instance.is_alive && state.left.kills > 0, Action::Kill(at)),
                (!instance.is_alive, Action::Restart(at)),
                (link.is_some() && !is_linked, Action::Notice(at)),
            ];
            actions.extend(steps.into_iter().filter(|(may, _)| *may).map(|(_, action)| action));
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let State { truth, instances, server, left } = &mut next;
        match action {
            Action::Change => {
                left.changes -= 1;
                *truth += 1;
                instances.iter_mut().for_each(|instance| instance.publish(*truth));
            }
            Action::Other(at) => {
                left.others -= 1;
                instances[at].send(What::Other);
            }
            Action::Heartbeat(at) => instances[at].repeat(),
            Action::Deliver(at) => {
                let msg = instances[at].stream.remove(0);
                server.on_stream(at, msg, instances);
            }
            Action::Lose(at) => {
                left.losses -= 1;
                instances[at].stream.remove(0);
            }
            Action::Up(at) => instances[at].on_up(*truth),
            Action::Down(at) => {
                let msg = instances[at].down.remove(0);
                server.on_down(at, msg, instances);
            }
            Action::Connect(at) => {
                server.links[at] = Some(instances[at].run);
                server.choose(instances);
            }
            Action::Break(at) => {
                left.breaks -= 1;
                instances[at].forget_link();
                server.on_link_lost(at, instances);
            }
            Action::Kill(at) => {
                left.kills -= 1;
                instances[at].kill();
            }
            Action::Restart(at) => instances[at].restart(),
            Action::Notice(at) => {
                instances[at].down.clear();
                server.on_link_lost(at, instances);
            }
            Action::Join => server.join(instances),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Protocol>> {
        vec![
            Property::always("updates in order, once, or suspect before", |_, state: &State| {
                state.fault().is_none()
            }),
            Property::always("good is what is updated", |_, state: &State| state.server.is_fed()),
            Property::always("nothing stays suspect", |model: &Protocol, state: &State| {
                !state.is_settled(model.mistake) || state.is_right()
            }),
            Property::sometimes(WELL, |model: &Protocol, state: &State| {
                let is_over = state.left.changes == 0 && state.server.clients[1] != Client::Absent;
                is_over && state.is_settled(model.mistake) && state.is_right()
            }),
        ]
    }
}
