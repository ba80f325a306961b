//! Aeron as an end of `tickcast bench`, in the layout that is fast where two threads have two CPUs:
//! the media driver has no threads of its own, each end drives one in its loop (`INVOKER`), and so its
//! client. Over shared memory one driver serves both ends; the far one drives it.
//!
//! Exclusive publications. Mode `offer` copies a message in, `claim` writes it in place. The MTU is the
//! longest multiple of 32 that a datagram of the asked length takes (1408 of 1472; 8192 is the most here, of
//! 8972).

use std::cell::Cell;
use std::ffi::CString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use measure::ends::{self, End, Failure, Link};
use rusteron_client::{
    Aeron, AeronContext, AeronExclusivePublication, AeronOfferError, AeronSubscription, Handlers,
};
use rusteron_media_driver::bindings::aeron_threading_mode_enum::AERON_THREADING_MODE_INVOKER;
use rusteron_media_driver::{AeronDriver, AeronDriverContext};
use serde_json::json;

/// Of a term over UDP, bytes: three of them hold what a receiver may ask for again.
const TERM_BYTES: usize = 16 << 20;
/// The same in shared memory, where shorter ones stay in the cache.
const IPC_TERM_BYTES: usize = 1 << 20;
/// What a receiver lets a sender have on the way, if the host allows such socket buffers.
const WINDOW_BYTES: usize = 2 << 20;
/// Fragments of one poll.
const FRAGMENTS: usize = 256;
/// Turns between two of the client's conductor, which keeps it alive.
const CLIENT_EVERY: u32 = 1024;
/// Turns between two of the driver where it carries no messages.
const IPC_DRIVER_EVERY: u32 = 64;
const START_LIMIT: Duration = Duration::from_secs(20);
const FROM_NEAR: i32 = 1001;
const FROM_FAR: i32 = 1002;

fn main() -> Result<(), Failure> {
    let end = End::enter()?;
    let mut ends: Vec<Ends> = (0..end.pairs).map(|pair| Ends::open(&end, pair)).collect::<Result<_, _>>()?;
    if !end.is_far() {
        ends.iter_mut().try_for_each(Ends::await_other)?;
    }
    ends::answer(&json!({ "ready": true }));
    ends::play(&end, &mut ends)
}

struct Ends {
    publication: AeronExclusivePublication,
    subscription: AeronSubscription,
    client: Aeron,
    driver: Option<AeronDriver>,
    driver_every: u32,
    claims: bool,
    turns: Cell<u32>,
    // Removed last.
    _directory: Directory,
}

/// Files of a driver that lie in memory, removed with this value if it is ours.
struct Directory(PathBuf, bool);

impl Drop for Directory {
    fn drop(&mut self) {
        if self.1 {
            // What is left of it is in memory until the next start of the host.
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

impl Ends {
    fn open(end: &End, pair: usize) -> Result<Ends, Failure> {
        let (is_ipc, is_far) = (end.path == "shm", end.is_far());
        let has_driver = is_far || !is_ipc;
        let name = if is_ipc || is_far { "far" } else { "near" };
        let directory = PathBuf::from(format!("/dev/shm/aeron-peer-{}-{pair}-{name}", end.port));
        let path = CString::new(directory.display().to_string())?;
        let directory = Directory(directory, has_driver);
        let driver = if has_driver { Some(driver(end, &path)?) } else { None };

        let context = AeronContext::new()?;
        context.set_dir(&path)?;
        context.set_use_conductor_agent_invoker(true)?;
        context.set_pre_touch_mapped_memory(true)?;
        let client = Aeron::new(&context)?;
        client.start()?;
        let [to_far, to_near] = channels(end, pair)?;
        let (out, out_stream, into, into_stream) = if is_far {
            (&to_near, FROM_FAR, &to_far, FROM_NEAR)
        } else {
            (&to_far, FROM_NEAR, &to_near, FROM_FAR)
        };
        let pending = client.async_add_exclusive_publication(out, out_stream)?;
        let publication = until(&client, driver.as_ref(), "a publication", || Ok(pending.poll()?))?;
        let pending = client.async_add_subscription(into, into_stream, Handlers::NONE, Handlers::NONE)?;
        let subscription = until(&client, driver.as_ref(), "a subscription", || Ok(pending.poll()?))?;
        Ok(Ends {
            publication,
            subscription,
            client,
            driver,
            driver_every: if is_ipc { IPC_DRIVER_EVERY } else { 1 },
            claims: end.mode == "claim",
            turns: Cell::new(0),
            _directory: directory,
        })
    }

    /// Until both directions are connected.
    fn await_other(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + START_LIMIT;
        while !(self.publication.is_connected() && self.subscription.is_connected()) {
            if Instant::now() > deadline {
                return Err("the other end has not connected".into());
            }
            self.turn()?;
        }
        Ok(())
    }
}

fn driver(end: &End, directory: &CString) -> Result<AeronDriver, Failure> {
    let context = AeronDriverContext::new()?;
    context.set_dir(directory)?;
    context.set_dir_delete_on_start(true)?;
    context.set_dir_delete_on_shutdown(true)?;
    context.set_threading_mode(AERON_THREADING_MODE_INVOKER)?;
    context.set_term_buffer_sparse_file(false)?;
    context.set_term_buffer_length(TERM_BYTES)?;
    context.set_ipc_term_buffer_length(IPC_TERM_BYTES)?;
    let mtu = (end.datagram / 32 * 32).min(8192).max(1408);
    context.set_mtu_length(mtu)?;
    let window = WINDOW_BYTES.min(host_limit("rmem_max")?);
    context.set_socket_so_rcvbuf(window)?;
    context.set_socket_so_sndbuf(WINDOW_BYTES.min(host_limit("wmem_max")?))?;
    context.set_rcv_initial_window_length(window)?;
    let driver = AeronDriver::new(&context)?;
    driver.start(true)?;
    Ok(driver)
}

/// What the host lets an ordinary socket's buffer have.
fn host_limit(name: &str) -> Result<usize, Failure> {
    Ok(std::fs::read_to_string(format!("/proc/sys/net/core/{name}"))?.trim().parse()?)
}

/// To the far end, and to the near one.
fn channels(end: &End, pair: usize) -> Result<[CString; 2], Failure> {
    let channels = match end.path.as_str() {
        "shm" => ["aeron:ipc".to_owned(), "aeron:ipc".to_owned()],
        "udp" => [0, 1].map(|n| format!("aeron:udp?endpoint=127.0.0.1:{}", port(end, 2 * pair + n))),
        // Odd addresses: data goes to them, what a receiver says to the ones after them.
        "multicast" => [0, 1].map(|n| {
            let n = 2 * pair + n;
            format!("aeron:udp?endpoint=239.77.3.{}:{}|interface=127.0.0.1", 2 * n + 1, port(end, n))
        }),
        other => return Err(format!("Aeron does not go by {other}").into()),
    };
    Ok([CString::new(channels[0].as_str())?, CString::new(channels[1].as_str())?])
}

/// The port of the run and its neighbours.
fn port(end: &End, n: usize) -> u16 {
    let n = n as u16;
    end.port.checked_add(n).unwrap_or(end.port - n)
}

fn until<T>(
    client: &Aeron,
    driver: Option<&AeronDriver>,
    what: &str,
    mut attempt: impl FnMut() -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if let Some(driver) = driver {
            driver.main_do_work()?;
        }
        client.main_do_work()?;
        if let Some(done) = attempt()? {
            return Ok(done);
        }
        if Instant::now() > deadline {
            return Err(format!("{what} was not made within {START_LIMIT:?}").into());
        }
    }
}

impl Link for Ends {
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<bool, Failure> {
        let sent = if self.claims {
            self.publication.try_claim_owned(message.len()).and_then(|mut claim| {
                claim.data().copy_from_slice(message);
                // It fails only after the publication, whose next claim says so.
                let _ = claim.commit();
                Ok(0)
            })
        } else {
            self.publication.offer(message)
        };
        match sent {
            Ok(_) => Ok(true),
            Err(error) if error.is_retryable() => Ok(false),
            Err(error) => Err(refused(error)),
        }
    }

    #[inline]
    fn receive(&mut self, mut handle: impl FnMut(&[u8])) -> Result<usize, Failure> {
        Ok(self.subscription.poll_fn(|message, _| handle(message), FRAGMENTS)? as usize)
    }

    #[inline]
    fn turn(&mut self) -> Result<(), Failure> {
        let turns = self.turns.get().wrapping_add(1);
        self.turns.set(turns);
        if let Some(driver) = &self.driver
            && turns.is_multiple_of(self.driver_every)
        {
            driver.main_do_work()?;
        }
        if turns.is_multiple_of(CLIENT_EVERY) {
            self.client.main_do_work()?;
        }
        Ok(())
    }
}

#[cold]
fn refused(error: AeronOfferError) -> Failure {
    format!("Aeron refuses a message: {error:?}").into()
}
