//! What systemd is told of a daemon (`sd_notify`): that it is ready, that it stops, that it lives.
//!
//! A daemon that moves its clients on before it ends may take longer than `TimeoutStopSec=`: it says how long, and that it
//! lives meanwhile. A service of `Type=notify` starts when it is ready; with `WatchdogSec=` it is restarted when a thread of it does not
//! turn any more. Without systemd nothing is sent.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::health::Alive;
use crate::host::Stop;

/// Tells that the daemon serves, and from then on that it lives as long as all its threads turn, and that it stops; and how
/// long that takes at most, if clients are moved on before.
pub(crate) fn start(alive: Alive, stop: &Stop, longest_end: Option<Duration>) -> io::Result<()> {
    let Some(address) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(()) };
    let socket = UnixDatagram::unbound()?;
    let address = match address.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(&address)?,
    };
    // Nobody waits for a manager that is held up.
    socket.set_nonblocking(true)?;
    let say = Arc::new(move |text: &str| socket.send_to_addr(text.as_bytes(), &address));
    say("READY=1")?;
    let farewell = say.clone();
    // A process without clients has ended before another thread has its turn.
    let longer = longest_end.map(|end| format!("\nEXTEND_TIMEOUT_USEC={}", end.as_micros()));
    let last_words = format!("STOPPING=1{}", longer.unwrap_or_default());
    stop.say_before(move || drop(farewell(&last_words)));
    let Some(interval) = watchdog_interval() else { return Ok(()) };
    let stop = stop.clone();
    thread::Builder::new().name("notify".to_owned()).spawn(move || {
        net::affinity::step_aside();
        loop {
            // It is fed to the end: clients may be moved on for longer than the watchdog waits.
            if stop.wait(interval) {
                thread::sleep(interval);
            }
            if alive.stuck().is_empty() {
                // One that is lost is followed by the next.
                let _ = say("WATCHDOG=1");
            }
        }
    })?;
    Ok(())
}

/// A third of the time within which systemd wants to hear something, if it does.
fn watchdog_interval() -> Option<Duration> {
    let is_ours = std::env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
    let limit = std::env::var("WATCHDOG_USEC").ok()?.parse().ok().filter(|limit| *limit > 0)?;
    is_ours.then(|| Duration::from_micros(limit) / 3)
}
