//! A source distributor.

/// One, and what is on its way from and to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    /// Counts its starts.
    pub run: u8,
    /// Whether it runs.
    pub is_alive: bool,
    /// The last number of its stream.
    pub sequence: u8,
    /// The server wants the item.
    pub is_wanted: bool,
    /// Of each number, whether it was about the item.
    concerned: Vec<bool>,
    /// Its stream's messages on their way, oldest first; those of runs that are over too.
    pub stream: Vec<StreamMsg>,
    /// Messages of the server to it.
    pub up: Vec<Up>,
    /// Messages to the server.
    pub down: Vec<Down>,
}

/// A message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamMsg {
    /// Which start of the source distributor it is of.
    pub run: u8,
    /// Its number; of a heartbeat the last one so far.
    pub sequence: u8,
    /// What it says.
    pub what: What,
}

/// What a stream message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// The id stands for the item from here on.
    Open,
    /// The item has a value.
    Update(u8),
    /// Something about another item.
    Other,
    /// Nothing is new.
    Heartbeat,
}

/// What the server says to a source distributor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Up {
    /// It wants the item, and its image.
    Interest,
    /// It wants the image again.
    ImageRequest,
    /// It asks what numbers were about, both ends included.
    GapQuery(u8, u8),
}

/// What a source distributor says to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Down {
    /// The item's value after a number of the stream.
    Image {
        /// The number.
        after: u8,
        /// The value.
        version: u8,
    },
    /// Whether the numbers up to `last` that were asked about concerned the item.
    GapAnswer {
        /// The last number asked about.
        last: u8,
        /// Whether one was about the item.
        is_concerned: bool,
    },
}

impl Default for Instance {
    fn default() -> Instance {
        Instance {
            run: 1,
            is_alive: true,
            sequence: 0,
            is_wanted: false,
            concerned: Vec::new(),
            stream: Vec::new(),
            up: Vec::new(),
            down: Vec::new(),
        }
    }
}

impl Instance {
    /// Sends the next message of the stream.
    pub(crate) fn send(&mut self, what: What) {
        self.sequence += 1;
        self.concerned.push(what != What::Other);
        self.stream.push(StreamMsg { run: self.run, sequence: self.sequence, what });
    }

    /// The item has changed. Only what somebody wants is published.
    pub(crate) fn publish(&mut self, version: u8) {
        if self.is_alive && self.is_wanted {
            self.send(What::Update(version));
        }
    }

    /// Repeats the last number.
    pub(crate) fn repeat(&mut self) {
        self.stream.push(StreamMsg { run: self.run, sequence: self.sequence, what: What::Heartbeat });
    }

    /// Takes the next message of the server, when the item has this value.
    pub(crate) fn on_up(&mut self, version: u8) {
        match self.up.remove(0) {
            Up::Interest => {
                self.is_wanted = true;
                self.send(What::Open);
                self.down.push(Down::Image { after: self.sequence, version });
            }
            Up::ImageRequest => self.down.push(Down::Image { after: self.sequence, version }),
            Up::GapQuery(first, last) => {
                let asked = usize::from(first) - 1..usize::from(last);
                let is_concerned = self.concerned[asked].contains(&true);
                self.down.push(Down::GapAnswer { last, is_concerned });
            }
        }
    }

    /// The link is gone, and with it what was wanted.
    pub(crate) fn forget_link(&mut self) {
        self.is_wanted = false;
        self.up.clear();
        self.down.clear();
    }

    /// It is gone. What it has sent may still arrive.
    pub(crate) fn kill(&mut self) {
        self.is_alive = false;
        self.is_wanted = false;
        self.up.clear();
    }

    /// It begins again, and has the item from its provider. Over the link of the run before nothing comes any more.
    pub(crate) fn restart(&mut self) {
        self.run += 1;
        self.is_alive = true;
        self.sequence = 0;
        self.concerned.clear();
        self.down.clear();
    }
}
