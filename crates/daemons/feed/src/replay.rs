//! Plays recordings with their timing into a provider's connection.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Provider, ProviderEvent, StartError};
use counters::table::{Feed, ProviderSession, RsslConnections};
use net::{Heartbeat, clock};
use rwf::Dictionary;
use tracing::{info, warn};
use units::Nanos;

use crate::publisher::ServicePublisher;
use crate::{FeedConfig, Handler, Merged, RecordingError, Speed};

/// Why a replay cannot begin or go on.
#[derive(Debug)]
pub enum ReplayError {
    /// There is nothing to play.
    NoFiles,
    /// A recording cannot be opened.
    Recording(RecordingError),
    /// The connection to the source distributor cannot be made ready.
    Start(StartError),
    /// The system refuses to wait for the socket.
    Io(io::Error),
    /// The source distributor has refused the login for good.
    Refused,
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFiles => f.write_str("there is nothing to play: name at least one recording"),
            Self::Recording(error) => error.fmt(f),
            Self::Start(error) => error.fmt(f),
            Self::Io(error) => write!(f, "cannot wait for the connection to the source distributor: {error}"),
            Self::Refused => f.write_str("the source distributor refuses the login"),
        }
    }
}

impl std::error::Error for ReplayError {}

impl From<RecordingError> for ReplayError {
    fn from(error: RecordingError) -> Self {
        ReplayError::Recording(error)
    }
}

impl From<io::Error> for ReplayError {
    fn from(error: io::Error) -> Self {
        ReplayError::Io(error)
    }
}

/// How often a waiting replay looks whether it is to stop.
const LOOK_UP: Duration = Duration::from_millis(100);

/// Frames published before the connection is served again, when several are due at once.
const FRAMES_AT_ONCE: usize = 64;

/// A recorded market on its way into a source distributor.
pub struct Replay {
    files: Vec<PathBuf>,
    speed: Speed,
    repeat: bool,
    start_delay: Duration,
    service: String,
    provider: Provider,
    handler: Handler,
    recording: Merged,
    counters: Arc<Feed>,
    /// Errors of frames that were told; after [`TOLD_MAX`] they are only counted.
    told: u32,
    heartbeat: Heartbeat,
}

/// Most bad lines that a replay tells one by one.
const TOLD_MAX: u32 = 10;

impl Replay {
    /// Opens the recordings. The connection begins with [`Replay::run`].
    ///
    /// # Errors
    /// [`ReplayError`] if there is no recording, one of them cannot be read, or the connection is configured
    /// wrongly.
    pub fn new(config: &FeedConfig, dictionary: &Dictionary) -> Result<Replay, ReplayError> {
        if config.files.is_empty() {
            return Err(ReplayError::NoFiles);
        }
        let files: Vec<PathBuf> = config.files.iter().map(PathBuf::from).collect();
        let recording = Merged::open(&files)?;
        let provider = Provider::new(&config.provider()).map_err(ReplayError::Start)?;
        let counters = Arc::new(Feed::default());
        Ok(Replay {
            handler: Handler::new(files.len(), Arc::clone(&counters)),
            files,
            speed: config.speed,
            repeat: config.repeat,
            start_delay: Duration::from_millis(config.start_delay_ms.into()),
            service: config.service.clone(),
            provider: provider.with_dictionary(dictionary),
            recording,
            counters,
            told: 0,
            heartbeat: Heartbeat::default(),
        })
    }

    /// What is counted: the feed, its session with the source distributor, the connection below.
    #[must_use]
    pub fn counters(&self) -> (Arc<Feed>, Arc<ProviderSession>, Arc<RsslConnections>) {
        let session = Arc::clone(self.provider.counters());
        (Arc::clone(&self.counters), session, Arc::clone(self.provider.connection_counters()))
    }

    /// The heart of the thread that runs it: it beats ten times a second or more.
    #[must_use]
    pub fn heartbeat(&self) -> Heartbeat {
        self.heartbeat.clone()
    }

    /// Plays until `stop` is set: waits for the first login, publishes blank images of all instruments, plays
    /// the recording, and keeps its final images published. A lost connection is made again; the replay goes
    /// on meanwhile.
    ///
    /// # Errors
    /// [`ReplayError::Refused`], [`ReplayError::Io`]; [`ReplayError::Recording`] if a recording cannot be
    /// opened again for its next round.
    pub fn run(mut self, stop: &AtomicBool) -> Result<(), ReplayError> {
        while !self.provider.is_logged_in() && self.goes_on(stop)? {
            self.serve(LOOK_UP)?;
        }
        self.announce();
        self.wait_until(clock::monotonic().after(self.start_delay), stop)?;
        info!(files = self.files.len(), speed = %self.speed, "the replay begins");
        while self.goes_on(stop)? && self.play(stop)? {
            self.counters.rounds.inc();
            if !self.repeat {
                info!("the recording is at its end; its final images stay published");
                break;
            }
            self.recording = Merged::open(&self.files)?;
            let publisher = &mut ServicePublisher { provider: &mut self.provider, service: &self.service };
            let result = self.handler.restart(publisher);
            self.note(result);
        }
        while self.goes_on(stop)? {
            self.serve(LOOK_UP)?;
        }
        self.provider.close();
        Ok(())
    }

    fn goes_on(&self, stop: &AtomicBool) -> Result<bool, ReplayError> {
        self.heartbeat.beat(clock::monotonic());
        if self.provider.is_stopped() {
            return Err(ReplayError::Refused);
        }
        Ok(!stop.load(Ordering::Relaxed))
    }

    /// Items exist from the start, whenever their first frames come.
    fn announce(&mut self) {
        let publisher = &mut ServicePublisher { provider: &mut self.provider, service: &self.service };
        let mut result = Ok(());
        for (file, frame) in self.recording.upcoming() {
            if let Some(symbol) = &frame.symbol {
                result = result.and(self.handler.announce(file, symbol, publisher));
            }
        }
        self.note(result);
    }

    /// Plays to the end of the recording; returns whether that was reached.
    fn play(&mut self, stop: &AtomicBool) -> Result<bool, ReplayError> {
        let Some(first_ns) = self.recording.next_ns() else { return Ok(true) };
        let pace = Pace { speed: self.speed, start: clock::monotonic(), first_ns };
        while let Some(next_ns) = self.recording.next_ns() {
            self.wait_until(pace.due(next_ns), stop)?;
            self.play_due(&pace);
            while !self.provider.wait_for_room(LOOK_UP, &mut |event| log_event(&event))?
                && self.goes_on(stop)?
            {}
            if !self.goes_on(stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Publishes what is due, but for so much that the connection would go unserved for long.
    fn play_due(&mut self, pace: &Pace) {
        for _ in 0..FRAMES_AT_ONCE {
            let now = clock::monotonic();
            match self.recording.next_ns() {
                Some(next_ns) if pace.due(next_ns) <= now => {
                    self.counters.position.set(next_ns - pace.first_ns);
                    self.counters.lateness.set(pace.lateness(next_ns, now).as_nanos() as u64);
                }
                _ => return,
            }
            match self.recording.next_frame() {
                Ok(Some((file, frame))) => {
                    let publisher =
                        &mut ServicePublisher { provider: &mut self.provider, service: &self.service };
                    let result = self.handler.on_frame(file, frame, publisher);
                    self.note(result);
                }
                Ok(None) => return,
                Err(error) => self.note(Err(error)),
            }
        }
    }

    fn wait_until(&mut self, due: Nanos, stop: &AtomicBool) -> Result<(), ReplayError> {
        loop {
            let now = clock::monotonic();
            if now >= due || !self.goes_on(stop)? {
                return Ok(());
            }
            self.serve(due.since(now).min(LOOK_UP))?;
        }
    }

    /// Writes what is published, and takes what the source distributor says.
    fn serve(&mut self, timeout: Duration) -> Result<(), ReplayError> {
        self.provider.dispatch(timeout, &mut |event| log_event(&event))?;
        Ok(())
    }

    fn note<E: fmt::Display>(&mut self, result: Result<(), E>) {
        let Err(error) = result else { return };
        self.counters.frames_refused.inc();
        self.told += 1;
        match self.told {
            ..TOLD_MAX => warn!("{error}"),
            TOLD_MAX => warn!("{error}; further ones are only counted, in feed_frames_refused_total"),
            _ => {}
        }
    }
}

/// When the frames of one round are due.
struct Pace {
    speed: Speed,
    start: Nanos,
    first_ns: u64,
}

impl Pace {
    fn due(&self, received_ns: u64) -> Nanos {
        let offset_ns = received_ns.saturating_sub(self.first_ns);
        match self.speed {
            Speed::Max => self.start,
            Speed::Times(factor) => {
                self.start.after(Duration::from_nanos((offset_ns as f64 / factor) as u64))
            }
        }
    }

    /// How much after its time a frame is played; none where there are no times.
    fn lateness(&self, received_ns: u64, now: Nanos) -> Duration {
        match self.speed {
            Speed::Max => Duration::ZERO,
            Speed::Times(_) => now.since(self.due(received_ns)),
        }
    }
}

fn log_event(event: &ProviderEvent<'_>) {
    match event {
        ProviderEvent::LoggedIn(_) => info!("logged in to the source distributor"),
        ProviderEvent::Disconnected { host, reason, retry_in: Some(delay) } => {
            warn!(%host, "{reason}; next attempt in {delay:?}");
        }
        ProviderEvent::Disconnected { host, reason, retry_in: None } => info!(%host, "{reason}"),
        ProviderEvent::LoginRefused { state, .. } => warn!("login refused: {state}"),
        ProviderEvent::LoginStatus(state) => info!("login: {state}"),
        ProviderEvent::Ready { images_count, .. } if *images_count > 0 => {
            info!(images_count, "images published again")
        }
        ProviderEvent::ImageTooLong { bytes, .. } => {
            warn!(bytes, "an image is longer than provider.backlog_max_bytes allows");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_due_by_its_distance_from_the_first() {
        let pace = |speed| Pace { speed, start: Nanos(1_000), first_ns: 5_000_000 };
        assert_eq!(pace(Speed::RECORDED).due(5_000_700), Nanos(1_700));
        assert_eq!(pace(Speed::Times(10.0)).due(5_000_700), Nanos(1_070));
        assert_eq!(pace(Speed::Max).due(6_000_000), Nanos(1_000));
        assert_eq!(pace(Speed::RECORDED).lateness(5_000_700, Nanos(1_950)), Duration::from_nanos(250));
        assert_eq!(pace(Speed::Max).lateness(5_000_700, Nanos(9_000)), Duration::ZERO);
        assert_eq!(pace(Speed::RECORDED).due(4_000_000), Nanos(1_000), "a clock that went back");
    }

    #[test]
    fn a_replay_without_a_recording_says_what_is_missing() {
        let error = Replay::new(&FeedConfig::default(), &Dictionary::new()).err().expect("nothing to play");
        assert!(error.to_string().contains("at least one recording"), "{error}");
    }
}
