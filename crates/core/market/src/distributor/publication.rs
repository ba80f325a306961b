//! The directory as peers get it.

use std::collections::BTreeMap;
use std::time::Duration;

use rdm::ToVec;
use rdm::directory::{DirectoryRefresh, Filter};
use units::Nanos;

use super::service::PublishedService;
use super::sink::DistributorSink;
use crate::backbone::{Kind, StreamMsg};

/// More directories are not published at one time: each lists all services.
const DIRECTORIES_AT_ONCE: u32 = 4;

/// The directory, as it was published last.
#[derive(Debug)]
pub(super) struct Publication {
    sequence: u64,
    at: Nanos,
    /// So often it was published at that time.
    times: u32,
    /// It has changed since it was published last.
    pub(super) is_due: bool,
    body: Vec<u8>,
}

impl Default for Publication {
    fn default() -> Publication {
        Publication { sequence: 0, at: Nanos::ZERO, times: 0, is_due: true, body: Vec::new() }
    }
}

impl Publication {
    /// When it is published next, as it has changed or is to be repeated.
    pub(super) fn next_at(&self, heartbeat: Duration) -> Nanos {
        match self.is_due {
            true if self.times >= DIRECTORIES_AT_ONCE => self.at + Duration::from_nanos(1),
            true => self.at,
            false => self.at + heartbeat,
        }
    }

    /// Publishes the services if they have changed since, or are to be repeated. However often they change in one
    /// moment, so in one turn, they are published a few times then, and once more later. Returns whether they were.
    pub(super) fn publish(
        &mut self,
        (now, heartbeat, instance): (Nanos, Duration, u64),
        services: &BTreeMap<u16, PublishedService>,
        sink: &mut impl DistributorSink,
    ) -> bool {
        if now != self.at {
            self.times = 0;
        } else if self.times >= DIRECTORIES_AT_ONCE {
            return false;
        }
        if std::mem::take(&mut self.is_due) {
            let services = services.values().map(|s| &s.definition);
            let refresh = DirectoryRefresh::publish(0, Filter::ALL, services).expect("ids are keys");
            self.body = refresh.to_vec().expect("each service was tried when it was taken");
        } else if now < self.at + heartbeat {
            return false;
        }
        self.at = now;
        self.times += 1;
        self.sequence += 1;
        sink.publish_directory(&StreamMsg {
            kind: Kind::Directory,
            instance,
            sequence: self.sequence,
            item: 0,
            parts: &[],
            body: &self.body,
        });
        true
    }
}
