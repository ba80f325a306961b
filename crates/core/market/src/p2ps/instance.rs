//! One run of a source distributor, as it is known here.

use std::collections::BTreeMap;

use rdm::directory::Service as Definition;
use units::Nanos;

use super::base::{ServerConfig, SourceId};
use super::sink::ServerSink;
use crate::backbone::{Features, LinkUp};

/// Which id of ours stands for which one of an instance, and the other way.
#[derive(Debug, Default)]
pub(super) struct Renumbering {
    pub(super) ours: BTreeMap<u16, u16>,
    pub(super) theirs: BTreeMap<u16, u16>,
}

impl Renumbering {
    pub(super) fn ours(&self, theirs: u16) -> Option<u16> {
        self.ours.get(&theirs).copied()
    }

    pub(super) fn theirs(&self, ours: u16) -> Option<u16> {
        self.theirs.get(&ours).copied()
    }
}

/// Sends a message to an instance, with its own ids. What it has no service for is not sent.
pub(super) fn send_to_instance(
    instances: &BTreeMap<u64, Instance>,
    instance: u64,
    msg: LinkUp<'_>,
    sink: &mut impl ServerSink,
) {
    let known = instances.get(&instance);
    if let Some(msg) = msg.renumbered(|ours| known?.ids.theirs(ours)) {
        sink.to_instance(instance, &msg);
    }
}

/// One run of a source distributor.
pub(super) struct Instance {
    pub(super) directory: SourceId,
    pub(super) session: u64,
    /// Another source of its directory that has spoken since this one did.
    pub(super) rival: Option<SourceId>,
    pub(super) link: Link,
    /// What it has said over the present link that it knows to do.
    pub(super) features: Features,
    /// When its directory was heard last.
    pub(super) heard_at: Nanos,
    /// It said nothing for too long, until it is heard again.
    pub(super) is_silent: bool,
    /// Its services, as its directory says, under our ids.
    pub(super) offers: BTreeMap<u16, Definition>,
    /// Its own ids of them.
    pub(super) ids: Renumbering,
    /// The directory itself, which is repeated many times before it changes.
    pub(super) directory_body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    Down {
        retry_at: Nanos,
    },
    /// It is being opened, or Hello is sent and not yet answered.
    Opening {
        give_up_at: Nanos,
    },
    Up,
}

/// A link that is not established and greeted by then is given up and opened anew.
pub(super) const LINK_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(5);

impl Instance {
    /// Whether it tells items apart by more than their names.
    pub(super) fn has_keys_in_full(&self) -> bool {
        self.features.has_keys_in_full()
    }

    /// Whether it knows what to do with an item that was had before.
    pub(super) fn has_resume(&self) -> bool {
        self.features.has_resume()
    }

    /// Whether it wants to know how far its streams are taken.
    pub(super) fn has_progress(&self) -> bool {
        self.features.has_progress()
    }

    pub(super) fn is_linked(&self) -> bool {
        self.link == Link::Up
    }

    pub(super) fn is_alive(&self) -> bool {
        self.link == Link::Up && !self.is_silent
    }

    pub(super) fn next_check(&self, config: &ServerConfig) -> Nanos {
        let silence = if self.is_silent { Nanos::NEVER } else { self.heard_at + config.silence_timeout };
        match self.link {
            Link::Down { retry_at } if !self.is_silent => retry_at.min(silence),
            Link::Down { .. } => self.heard_at + config.silence_timeout * FORGET_AFTER,
            Link::Opening { give_up_at } => silence.min(give_up_at),
            Link::Up => silence,
        }
    }
}

/// An instance whose link is down is forgotten after so many silence timeouts.
pub(super) const FORGET_AFTER: u32 = 10;
