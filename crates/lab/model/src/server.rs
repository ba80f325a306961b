//! The point-to-point server, and its clients.

use crate::Mistake;
use crate::instance::{Down, Instance, StreamMsg, Up, What};

/// What a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Client {
    /// It has not come.
    Absent,
    /// It waits for its first image.
    Waiting,
    /// A value.
    Has {
        /// The value.
        version: u8,
        /// Whether it was told that the value is good.
        is_good: bool,
    },
}

/// Where the item stands with the source distributor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// There is nobody to ask.
    Idle,
    /// An image is on its way; updates wait for it.
    Requested {
        /// Updates: number and value.
        held: Vec<(u8, u8)>,
    },
    /// The image is here, or away, and the updates up to a number have passed.
    Live {
        /// The number.
        after: u8,
    },
}

/// What waits because numbers before it are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Behind {
    Gap { first: u8, last: u8 },
    Message(u8, What),
}

/// An image that is asked for again by a server that keeps none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Recall {
    held: Vec<(u8, u8)>,
    /// It is here, and messages that it has are not: number and value.
    early: Option<(u8, u8)>,
}

/// The server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// The run of each source distributor that it is linked to.
    pub links: [Option<u8>; 2],
    /// Whom the item comes from.
    pub active: Option<usize>,
    /// Run and next number of each stream; 0 before anything is known.
    pub streams: [(u8, u8); 2],
    /// The item.
    pub phase: Phase,
    /// Its id in the active stream is known.
    is_bound: bool,
    behind: Vec<Behind>,
    /// The value, unless it is away.
    image: Option<u8>,
    recall: Option<Recall>,
    /// Who watches.
    pub clients: [Client; 2],
    /// Which promise was broken.
    pub fault: Option<&'static str>,
    is_uncached: bool,
    mistake: Option<Mistake>,
}

impl Server {
    pub(crate) fn new(is_uncached: bool, mistake: Option<Mistake>) -> Server {
        Server {
            links: [None; 2],
            active: None,
            streams: [(1, 0); 2],
            phase: Phase::Idle,
            is_bound: false,
            behind: Vec::new(),
            image: None,
            recall: None,
            clients: [Client::Waiting, Client::Absent],
            fault: None,
            is_uncached,
            mistake,
        }
    }

    fn makes(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }
}

/// What clients get.
impl Server {
    fn show_update(&mut self, version: u8) {
        for client in &mut self.clients {
            if let Client::Has { version: before, is_good } = *client {
                if is_good && version != before + 1 {
                    self.fault = Some("an update twice, or behind a hole");
                }
                *client = Client::Has { version, is_good };
            }
        }
    }

    fn show_image(&mut self, version: u8, is_for: impl Fn(&Client) -> bool) {
        for client in self.clients.iter_mut().filter(|client| is_for(client)) {
            if let Client::Has { version: before, .. } = *client
                && version < before
            {
                self.fault = Some("the image went back");
            }
            *client = Client::Has { version, is_good: true };
        }
    }

    fn suspect(&mut self) {
        for client in &mut self.clients {
            if let Client::Has { is_good, .. } = client {
                *is_good = false;
            }
        }
    }

    /// Whether nobody takes a value for good while updates do not come through.
    pub(crate) fn is_fed(&self) -> bool {
        let is_good = |client: &Client| matches!(client, Client::Has { is_good: true, .. });
        matches!(self.phase, Phase::Live { .. }) || !self.clients.iter().any(is_good)
    }

    /// The second client comes.
    pub(crate) fn join(&mut self, instances: &mut [Instance; 2]) {
        match (&self.phase, self.image) {
            (Phase::Live { .. }, Some(version)) => self.clients[1] = Client::Has { version, is_good: true },
            (Phase::Live { .. }, None) => {
                self.clients[1] = Client::Waiting;
                self.recall = Some(Recall { held: Vec::new(), early: None });
                self.say(instances, Up::ImageRequest);
            }
            _ => self.clients[1] = Client::Waiting,
        }
    }
}

/// Whom it comes from.
impl Server {
    fn say(&self, instances: &mut [Instance; 2], msg: Up) {
        if let Some(at) = self.active
            && instances[at].is_alive
            && self.links[at] == Some(instances[at].run)
        {
            instances[at].up.push(msg);
        }
    }

    /// Asks somebody for the item if nobody is asked.
    pub(crate) fn choose(&mut self, instances: &mut [Instance; 2]) {
        if self.active.is_some() {
            return;
        }
        self.active = (0..2).find(|at| self.links[*at].is_some());
        let Some(at) = self.active else { return };
        if let Some(run) = self.links[at]
            && run > self.streams[at].0
            && !self.makes(Mistake::RunsAreOne)
        {
            self.streams[at] = (run, 0);
        }
        self.phase = Phase::Requested { held: Vec::new() };
        self.is_bound = false;
        self.say(instances, Up::Interest);
    }

    /// A link is gone.
    pub(crate) fn on_link_lost(&mut self, at: usize, instances: &mut [Instance; 2]) {
        self.links[at] = None;
        if self.active != Some(at) {
            return;
        }
        self.active = None;
        (self.phase, self.recall, self.image) = (Phase::Idle, None, None);
        self.behind.clear();
        if !self.makes(Mistake::LossIsNotTold) {
            self.suspect();
        }
        self.choose(instances);
    }

    /// Asks for the image again.
    fn request_again(&mut self, instances: &mut [Instance; 2]) {
        self.phase = Phase::Requested { held: Vec::new() };
        (self.recall, self.image) = (None, None);
        self.say(instances, Up::ImageRequest);
    }
}

/// The stream.
impl Server {
    /// A message of a stream has come.
    pub(crate) fn on_stream(&mut self, at: usize, msg: StreamMsg, instances: &mut [Instance; 2]) {
        let (run, next) = self.streams[at];
        if !self.makes(Mistake::RunsAreOne) {
            if msg.run < run {
                return;
            }
            if msg.run > run {
                self.streams[at] = (msg.run, 0);
                return self.on_stream(at, msg, instances);
            }
        }
        let is_heartbeat = msg.what == What::Heartbeat;
        let is_active =
            self.active == Some(at) && (self.links[at] == Some(msg.run) || self.makes(Mistake::RunsAreOne));
        if msg.sequence < next {
            return;
        }
        self.streams[at].1 = msg.sequence + 1;
        if !is_active {
            return;
        }
        let last = if is_heartbeat { msg.sequence } else { msg.sequence - 1 };
        if next > 0 && next <= last && !self.makes(Mistake::GapsAreIgnored) {
            self.behind.push(Behind::Gap { first: next, last });
            self.say(instances, Up::GapQuery(next, last));
        }
        if is_heartbeat {
        } else if self.behind.is_empty() || self.makes(Mistake::NobodyWaitsForAnswers) {
            self.on_ordered(msg.sequence, msg.what);
        } else {
            self.behind.push(Behind::Message(msg.sequence, msg.what));
        }
        self.show_early();
    }

    /// A message whose turn has come.
    fn on_ordered(&mut self, sequence: u8, what: What) {
        match what {
            What::Open => self.is_bound = true,
            What::Update(version) if self.is_bound => self.on_update(sequence, version),
            What::Update(_) | What::Other | What::Heartbeat => {}
        }
    }

    fn on_update(&mut self, sequence: u8, version: u8) {
        let nothing_is_held = self.makes(Mistake::NothingIsHeld);
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Requested { .. } if nothing_is_held => {}
            Phase::Requested { held, .. } => held.push((sequence, version)),
            Phase::Live { after } if sequence <= *after => {}
            Phase::Live { after } => {
                *after = sequence;
                if let Some(recall) = &mut self.recall {
                    recall.held.push((sequence, version));
                }
                if let Some(image) = &mut self.image {
                    *image = version;
                }
                self.show_update(version);
            }
        }
    }

    /// The number up to which the item has got its messages.
    fn handed_on(&self, at: usize) -> u8 {
        let next = match self.behind.first() {
            Some(Behind::Gap { first, .. }) => *first,
            Some(Behind::Message(sequence, _)) => *sequence,
            None => self.streams[at].1,
        };
        next.saturating_sub(1)
    }
}

/// The link.
impl Server {
    /// A message of a source distributor has come.
    pub(crate) fn on_down(&mut self, at: usize, msg: Down, instances: &mut [Instance; 2]) {
        if self.active != Some(at) {
            return;
        }
        match msg {
            Down::Image { after, version } => self.on_image(at, (after, version), instances),
            Down::GapAnswer { last, is_concerned } => self.on_gap_answer(last, is_concerned, instances),
        }
        self.show_early();
    }

    fn on_gap_answer(&mut self, answered: u8, is_concerned: bool, instances: &mut [Instance; 2]) {
        if !matches!(self.behind.first(), Some(Behind::Gap { last, .. }) if *last == answered) {
            return;
        }
        self.behind.remove(0);
        if is_concerned && matches!(self.phase, Phase::Live { .. }) {
            self.suspect();
            self.request_again(instances);
        }
        while let Some(Behind::Message(sequence, what)) = self.behind.first().copied() {
            self.behind.remove(0);
            self.on_ordered(sequence, what);
        }
    }

    fn on_image(&mut self, at: usize, (after, version): (u8, u8), instances: &mut [Instance; 2]) {
        let Phase::Requested { held } = &mut self.phase else {
            if let Some(recall) = &mut self.recall {
                recall.early = Some((after, version));
            }
            return;
        };
        let next = &mut self.streams[at].1;
        if *next == 0 {
            *next = after + 1;
        }
        let joins = self.is_bound || after + 1 >= *next || self.mistake == Some(Mistake::AnyImageJoins);
        self.is_bound = true;
        if !joins {
            // What was held stays: it may be behind the next one.
            return self.say(instances, Up::ImageRequest);
        }
        let held = std::mem::take(held);
        self.phase = Phase::Live { after };
        self.image = Some(version);
        self.show_image(version, |client| *client != Client::Absent);
        if self.is_uncached {
            self.image = None;
        }
        for (sequence, version) in held {
            self.on_update(sequence, version);
        }
    }

    /// A recalled image is shown when the messages that it has are here, with those merged that it lacks.
    fn show_early(&mut self) {
        let (Some(at), Some(recall)) = (self.active, &self.recall) else { return };
        let Some((after, version)) = recall.early else { return };
        if after > self.handed_on(at) && !self.makes(Mistake::EarlyImagesAreShown) {
            return;
        }
        let behind = recall.held.iter().rev().find(|(sequence, _)| *sequence > after);
        let version = match behind {
            Some((_, newest)) if !self.makes(Mistake::LateImagesAreShown) => *newest,
            _ => version,
        };
        self.recall = None;
        self.show_image(version, |client| *client == Client::Waiting);
    }
}
