//! What a provider counts.

use serde_json::{Value, json};

use crate::statistics::LatencyStatistics;

/// What was received and sent.
#[derive(Clone, Debug, Default)]
pub struct ServerCounts {
    /// Connections that were made.
    pub connections: u64,
    /// Logins that were accepted.
    pub logins: u64,
    /// Item requests, each of a batch for itself; those for the image of an open stream are among them.
    pub requests: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Streams that consumers have closed.
    pub closes: u64,
    /// Images that were sent.
    pub images: u64,
    /// Updates that were sent, without posts that went back.
    pub updates: u64,
    /// Of these, those with a time stamp.
    pub stamped: u64,
    /// Updates that were dropped because too much waited for their connection.
    pub dropped: u64,
    /// Posts that came.
    pub posts: u64,
    /// Posts that went back as updates.
    pub posts_reflected: u64,
    /// Generic messages that came.
    pub generics: u64,
    /// Generic messages that went back.
    pub generics_answered: u64,
    /// How old time stamps (TIM_TRK_3) in generic messages were.
    pub generic_latency: LatencyStatistics,
    /// Ticks that were taken after the next one was due.
    pub late_ticks: u64,
    /// Messages that were malformed, or that nothing can be done with.
    pub unusable: u64,
}

impl ServerCounts {
    /// As an object; the names are stable.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "connections": self.connections,
            "logins": self.logins,
            "requests": self.requests,
            "refused": self.refused,
            "closes": self.closes,
            "images": self.images,
            "updates": self.updates,
            "stamped": self.stamped,
            "dropped": self.dropped,
            "posts": self.posts,
            "posts_reflected": self.posts_reflected,
            "generics": self.generics,
            "generics_answered": self.generics_answered,
            "generic_latency": self.generic_latency.to_json(),
            "late_ticks": self.late_ticks,
            "unusable": self.unusable,
        })
    }
}
