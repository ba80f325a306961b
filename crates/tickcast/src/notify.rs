//! What systemd is told of a daemon (`sd_notify`): that it is ready, that it stops, that it lives.
//!
//! A service of `Type=notify` starts when it is ready; with `WatchdogSec=` it is restarted when a thread of it does not
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

/// Tells that the daemon serves, and from then on that it lives as long as all its threads turn, and that it stops.
pub(crate) fn start(alive: Alive, stop: &Stop) -> io::Result<()> {
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
    stop.say_before(move || drop(farewell("STOPPING=1")));
    let interval = watchdog_interval();
    let stop = stop.clone();
    thread::Builder::new().name("notify".to_owned()).spawn(move || {
        while !stop.wait(interval.unwrap_or(Duration::from_secs(3600))) {
            if interval.is_some() && alive.stuck().is_empty() {
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
