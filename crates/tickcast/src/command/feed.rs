use std::path::PathBuf;

use daemon::{DaemonThread, Described, OrderError, Query, StatusError};
use feed::{Replay, Speed};
use serde_json::{Value, json};

use crate::config::ConfigArgs;
use crate::dictionary;
use crate::failure::Failure;
use crate::host::{self, Start};

/// What to play, beside the configuration.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast feed data/binance/*.zst                     with the recording's timing
  tickcast feed --speed max --config examples/feed.toml

The feed connects to a source distributor as a non-interactive RSSL provider (feed.provider.hosts), publishes blank images
of all instruments, plays the recordings together, and keeps the final images published until it is stopped.")]
pub(crate) struct FeedArgs {
    /// Recordings, in place of feed.files.
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// 1 keeps the recording's timing, 10 is ten times as fast, max does not wait.
    #[arg(long)]
    speed: Option<Speed>,
    /// Begins again at the end of the recording.
    #[arg(long = "loop")]
    repeat: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

pub(crate) fn run(args: &FeedArgs) -> Result<(), Failure> {
    let Start { mut config, registry, stop, log: _log } = Start::new(&args.config, "feed")?;
    if !args.files.is_empty() {
        config.feed.files = args.files.iter().map(|path| path.display().to_string()).collect();
    }
    config.feed.speed = args.speed.unwrap_or(config.feed.speed);
    config.feed.repeat |= args.repeat;
    let dictionary = dictionary::load(&config.dictionary)?;
    let replay = Replay::new(&config.feed, &dictionary).map_err(|e| Failure::Config(e.to_string()))?;
    let (feed, session, connection) = replay.counters();
    registry.register(&[], feed);
    registry.register(&[], session);
    registry.register(&[("part", "feed")], connection);
    let _counters = host::publish_counters(&config.admin, &registry, "feed");
    // Its thread does not run the loop that counts its time.
    let threads = vec![DaemonThread::new("feed", replay.heartbeat())];
    let status = |query: &str| -> Result<Value, StatusError> {
        // It has no list of connections to choose from.
        Query::parse(query, &[]).map_err(StatusError::Query)?;
        Ok(json!({ "role": "feed" }))
    };
    let described = Described::new(threads, status, |_| Err(OrderError::Unsupported));
    host::start_admin(&config.admin, &registry, &stop, &described, None)?;
    config.feed.thread.enter()?;
    replay.run(stop.flag()).map_err(|e| Failure::Run(e.to_string()))
}
