use std::time::Duration;

use daemon::ThreadConfig;
use market::IntakeConfig;
use market::p2ps::ServerConfig;
use server::rssl::RsslConfig;
use server::websocket::WebSocketConfig;

config::section! {
    /// The point-to-point server: consumers connect here.
    pub struct P2psConfig {
        /// Port on which RSSL consumers connect.
        rssl_port: u16 = 14002;
        /// How consumer connections are treated.
        rssl: RsslConfig;
        /// Port on which consumers connect by WebSocket; 0 for none.
        websocket_port: u16 = 15000;
        /// How these connections are treated.
        websocket: WebSocketConfig;
        /// File with the users that may log in (docs/users.md), read again when it changes; everybody may if it
        /// is not set.
        users_file: Option<String> = None, length 1..=4096;
        /// The service that a WebSocket request means if it names none. Without this it is the only service
        /// that there is.
        default_service: Option<String> = None, length 1..=255;
        /// A stream over WebSocket that an update could not reach, because it cannot be written as JSON, gets
        /// an image after this time; until then it is suspect.
        json_image_delay_ms: u64 = 1_000, range 10..=600_000;
        /// The name that source distributors know this server by.
        name: String = "p2ps", length 1..=255;
        /// How long an item stays subscribed upstream after its last watcher has left.
        item_linger_ms: u64 = 5_000, range 0..=3_600_000;
        /// Most images asked for at a time, so that a recovery does not flood the source distributor.
        images_outstanding_max: u32 = 500, range 1..=1_000_000;
        /// An image that has not come by then is asked for again.
        image_timeout_ms: u64 = 5_000, range 100..=600_000;
        /// Most bytes of updates held back for one item while its image is on its way.
        held_max_bytes: u64 = 262_144, range 4_096..=1_073_741_824;
        /// Most bytes of a service's messages that wait behind a gap until it is known which items it
        /// concerns.
        gap_held_max_bytes: u64 = 67_108_864, range 65_536..=17_179_869_184;
        /// Most bytes of the backbone's messages that wait while the server is busy with others; beyond that
        /// they are dropped, and their items get new images. Several times
        /// source_distributor.flow.window_bytes of all source distributors together.
        intake_max_bytes: u64 = 67_108_864, range 1_048_576..=17_179_869_184;
        /// Most bytes of the backbone's messages handled in a second; 0 for no limit. To rehearse overload.
        intake_rate_limit_bytes_per_second: u64 = 0, range 0..=1_000_000_000_000;
        /// How far the streams are handled is reported to source distributors at this interval.
        progress_interval_ms: u32 = 20, range 1..=1_000;
        /// A broken link to a source distributor is opened again after this time.
        link_retry_ms: u64 = 200, range 10..=60_000;
        /// A source distributor that is not heard for so long is taken for gone; several times its
        /// heartbeat_interval_ms.
        silence_timeout_ms: u64 = 2_000, range 100..=600_000;
        /// Most item streams one client may have open.
        client_streams_max: u32 = 500_000, range 1..=10_000_000;
        /// The round trip to consumers that offer it at login is measured at this interval; 0 for never.
        round_trip_interval_ms: u64 = 10_000, range 0..=3_600_000;
        /// A post that is not acknowledged by then is refused; below the 15 s that stock consumers wait.
        post_timeout_ms: u64 = 10_000, range 100..=600_000;
        /// Most posts of all clients that may wait for their acknowledgement; more are refused.
        posts_outstanding_max: u32 = 100_000, range 1..=10_000_000;
        /// Services of whose items an update changes only the fields that it has. In others a field's old value
        /// moves to the field that it ripples to by the dictionary, if the image has that. Source distributors
        /// have to be told the same: `ripples` of `source_distributor.services`.
        services_without_ripples: Vec<String> = [], length 0..=1_000;
        /// Where many streams or items are concerned at once, because a client has gone or a service is lost, so
        /// many of them are dealt with before others are served again.
        cleanups_per_turn: u32 = 2_000, range 1..=1_000_000;
        /// Longest time from SIGTERM to the end, for clients to take what waits for them.
        shutdown_timeout_ms: u32 = 3_000, range 0..=600_000;
        /// The thread.
        thread: ThreadConfig;
    }
}

impl P2psConfig {
    /// What waits of the backbone's messages.
    pub(crate) fn intake(&self) -> IntakeConfig {
        let bytes_max = self.intake_max_bytes as usize;
        IntakeConfig { bytes_max, rate_limit: self.intake_rate_limit_bytes_per_second }
    }

    /// What the core goes by.
    #[must_use]
    pub fn core(&self) -> ServerConfig {
        let ms = Duration::from_millis;
        ServerConfig {
            name: self.name.clone(),
            item_linger: ms(self.item_linger_ms),
            images_outstanding_max: self.images_outstanding_max as usize,
            image_timeout: ms(self.image_timeout_ms),
            held_bytes_max: self.held_max_bytes as usize,
            gap_held_bytes_max: self.gap_held_max_bytes as usize,
            link_retry: ms(self.link_retry_ms),
            silence_timeout: ms(self.silence_timeout_ms),
            client_streams_max: self.client_streams_max as usize,
            round_trip_interval: ms(self.round_trip_interval_ms),
            post_timeout: ms(self.post_timeout_ms),
            progress_interval: ms(self.progress_interval_ms.into()),
            posts_outstanding_max: self.posts_outstanding_max as usize,
            unrippled: self.services_without_ripples.iter().cloned().collect(),
            cleanups_per_turn: self.cleanups_per_turn as usize,
        }
    }
}
