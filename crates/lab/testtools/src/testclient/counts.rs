//! What a consumer counts.

use serde_json::{Value, json};
use units::Nanos;

use crate::statistics::{LatencyStatistics, Moments};

/// A part of a run: startup or steady state.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Updates that came.
    pub updates: u64,
    /// How old their time stamps were.
    pub latency: LatencyStatistics,
}

/// What was sent and received.
#[derive(Clone, Debug, Default)]
pub struct ClientCounts {
    /// Items that were asked for.
    pub requests: u64,
    /// Complete images that came.
    pub images: u64,
    /// States that came by themselves, without an image.
    pub statuses: u64,
    /// Streams that the server closed.
    pub closed: u64,
    /// From the first request to the last image.
    pub startup: Phase,
    /// From the last image on.
    pub steady: Phase,
    /// Updates that came after the last image and before steady state is counted (`--delay-steady-state`).
    pub left_out: u64,
    /// Fields that were decoded.
    pub fields: u64,
    /// Fields that were not of their type.
    pub unreadable: u64,
    /// Fields that the dictionary does not have.
    pub unknown: u64,
    /// Posts that were sent.
    pub posts: u64,
    /// Posts that came back as updates; they are counted as updates too.
    pub posts_returned: u64,
    /// Posts that were acknowledged.
    pub posts_acked: u64,
    /// Posts that were refused, or not answered in time.
    pub posts_refused: u64,
    /// Posts that found no room.
    pub posts_unsent: u64,
    /// How long posts took to come back.
    pub post_latency: LatencyStatistics,
    /// Generic messages that were sent.
    pub generics: u64,
    /// Generic messages that came.
    pub generics_returned: u64,
    /// Generic messages that found no room.
    pub generics_unsent: u64,
    /// How old the time stamps of generic messages were.
    pub generic_latency: LatencyStatistics,
    /// Time stamps that were zero or of the future: of another host, or in another unit.
    pub stamps_unusable: u64,
    /// Connections that were lost.
    pub connections_lost: u64,
    /// The first request.
    pub requested_at: Option<Nanos>,
    /// The last image.
    pub complete_at: Option<Nanos>,
    /// The first update.
    pub first_update_at: Option<Nanos>,
}

impl ClientCounts {
    /// All updates.
    #[must_use]
    pub fn updates(&self) -> u64 {
        self.startup.updates + self.steady.updates + self.left_out
    }

    /// Latencies of both parts.
    #[must_use]
    pub fn overall_latency(&self) -> LatencyStatistics {
        let mut all = self.startup.latency.clone();
        all.merge(&self.steady.latency);
        all
    }

    /// Adds another connection's.
    pub fn merge(&mut self, other: &ClientCounts) {
        for (ours, theirs) in [
            (&mut self.requests, other.requests),
            (&mut self.images, other.images),
            (&mut self.statuses, other.statuses),
            (&mut self.closed, other.closed),
            (&mut self.startup.updates, other.startup.updates),
            (&mut self.steady.updates, other.steady.updates),
            (&mut self.left_out, other.left_out),
            (&mut self.fields, other.fields),
            (&mut self.unreadable, other.unreadable),
            (&mut self.unknown, other.unknown),
            (&mut self.posts, other.posts),
            (&mut self.posts_returned, other.posts_returned),
            (&mut self.posts_acked, other.posts_acked),
            (&mut self.posts_refused, other.posts_refused),
            (&mut self.posts_unsent, other.posts_unsent),
            (&mut self.generics, other.generics),
            (&mut self.generics_returned, other.generics_returned),
            (&mut self.generics_unsent, other.generics_unsent),
            (&mut self.stamps_unusable, other.stamps_unusable),
            (&mut self.connections_lost, other.connections_lost),
        ] {
            *ours += theirs;
        }
        self.startup.latency.merge(&other.startup.latency);
        self.steady.latency.merge(&other.steady.latency);
        self.post_latency.merge(&other.post_latency);
        self.generic_latency.merge(&other.generic_latency);
        let earliest = |a: Option<Nanos>, b: Option<Nanos>| a.into_iter().chain(b).min();
        self.requested_at = earliest(self.requested_at, other.requested_at);
        self.first_update_at = earliest(self.first_update_at, other.first_update_at);
        // None has all its images before all have.
        self.complete_at = self.complete_at.max(other.complete_at);
    }

    /// As an object; the names are stable.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "requests": self.requests,
            "images": self.images,
            "statuses": self.statuses,
            "closed": self.closed,
            "updates": self.updates(),
            "startup_updates": self.startup.updates,
            "steady_updates": self.steady.updates,
            "left_out_updates": self.left_out,
            "startup_latency": self.startup.latency.to_json(),
            "steady_latency": self.steady.latency.to_json(),
            "fields": self.fields,
            "unreadable_fields": self.unreadable,
            "unknown_fields": self.unknown,
            "posts": self.posts,
            "posts_returned": self.posts_returned,
            "posts_acked": self.posts_acked,
            "posts_refused": self.posts_refused,
            "posts_unsent": self.posts_unsent,
            "post_latency": self.post_latency.to_json(),
            "generics": self.generics,
            "generics_returned": self.generics_returned,
            "generics_unsent": self.generics_unsent,
            "generic_latency": self.generic_latency.to_json(),
            "unusable_stamps": self.stamps_unusable,
            "connections_lost": self.connections_lost,
        })
    }
}

/// What happened since the last report.
#[derive(Clone, Debug, Default)]
pub struct IntervalCounts {
    /// Images that came.
    pub images: u64,
    /// Updates that came.
    pub updates: u64,
    /// States that came.
    pub statuses: u64,
    /// Posts that were sent.
    pub posts: u64,
    /// Generic messages that were sent.
    pub generics: u64,
    /// Generic messages that came.
    pub generics_returned: u64,
    /// Latencies of updates, posts and generic messages.
    pub latency: [Moments; 3],
}

impl IntervalCounts {
    /// Adds another connection's.
    pub fn merge(&mut self, other: &IntervalCounts) {
        self.images += other.images;
        self.updates += other.updates;
        self.statuses += other.statuses;
        self.posts += other.posts;
        self.generics += other.generics;
        self.generics_returned += other.generics_returned;
        for (ours, theirs) in self.latency.iter_mut().zip(&other.latency) {
            ours.merge(theirs);
        }
    }
}
