//! Ten thousand consumers in one process that come, stand still and go together, as they are told.

use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use clap::Args;
use net::{Interest, Poller, Token, Transport, clock};
use rssl::{ClientConfig, ClientParams};
use serde_json::{Value, json};
use units::Nanos;

use crate::BenchError;
use crate::fan_out::{Mount, Peer, Watchlist, read};
use crate::options::Cpu;
use crate::process::{self, answer};

#[derive(Debug, Args)]
pub(crate) struct CrowdArgs {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    clients: u32,
    #[arg(long)]
    each: u32,
    #[arg(long)]
    items: u32,
    #[command(flatten)]
    cpu: Cpu,
}

impl CrowdArgs {
    /// The items of a consumer: the next ones after those of the one before it, all around.
    fn watchlist(&self, number: u32) -> Watchlist {
        let own_from = (u64::from(number) * u64::from(self.each) % u64::from(self.items)) as u32;
        Watchlist { common: 0, mount: 0, own_from, own: self.each, own_of: self.items }
    }
}

/// Consumers that connect before the others are read again.
const AT_ONCE: u32 = 16;
const READ_BYTES: usize = 256 << 10;
/// How long a look at the sockets waits, and how often timers are looked at.
const LOOK_UP: Duration = Duration::from_millis(10);
const TIMERS: Duration = Duration::from_secs(1);
/// When nothing has come for so long, all has come.
const QUIET: Duration = Duration::from_millis(500);

/// The consumers that are there.
struct Crowd {
    poller: Poller,
    mounts: Vec<Mount>,
    bytes: Vec<u8>,
    timers_at: Nanos,
    /// When something came the last time.
    came_at: Nanos,
}

/// Connects all when it is told to, and so on; each order is answered when it is done.
pub(crate) fn crowd(args: &CrowdArgs) -> Result<(), BenchError> {
    args.cpu.enter()?;
    let params = Arc::new(ClientConfig { ping_timeout_s: u8::MAX, ..ClientConfig::default() }.check()?);
    let commands = process::commands();
    let mut crowd = Crowd::new()?;
    answer(&json!({ "ready": true }));
    while let Some(command) = crowd.next(&commands)? {
        let began = clock::monotonic();
        match command["do"].as_str() {
            Some("come") => {
                crowd.come(args, &params)?;
                let took = clock::monotonic().since(began).as_nanos() as u64;
                answer(&json!({ "came_ns": took }));
            }
            Some("stop") => {
                answer(&json!({ "stopped": true }));
                if !crowd.stand_still(&commands)? {
                    return Ok(());
                }
                let began = clock::monotonic();
                crowd.catch_up()?;
                answer(&json!({ "caught_up_ns": crowd.came_at.since(began).as_nanos() as u64 }));
            }
            Some("leave") => {
                crowd = Crowd::new()?;
                answer(&json!({ "left": true }));
            }
            _ => return Err(BenchError::new(format!("not an order: {command}"))),
        }
    }
    Ok(())
}

impl Crowd {
    fn new() -> Result<Crowd, BenchError> {
        let (poller, now) = (Poller::new()?, clock::monotonic());
        Ok(Crowd { poller, mounts: Vec::new(), bytes: vec![0; READ_BYTES], timers_at: now, came_at: now })
    }

    /// Reads until there is an order; none if there will be no more.
    fn next(&mut self, commands: &Receiver<Value>) -> Result<Option<Value>, BenchError> {
        if self.mounts.is_empty() {
            return Ok(commands.recv().ok());
        }
        loop {
            match commands.try_recv() {
                Ok(command) => return Ok(Some(command)),
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => self.turn(LOOK_UP)?,
            }
        }
    }

    /// Connects them, and waits until each has all of its images.
    fn come(&mut self, args: &CrowdArgs, params: &Arc<ClientParams>) -> Result<(), BenchError> {
        for number in 0..args.clients {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, args.port))?;
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let transport = Transport::Plain(stream);
            let mut mount = Mount::new(args.watchlist(number), number, transport, params);
            self.poller.registrar().add(mount.transport(), Token(number.into()), Interest::Read)?;
            mount.write()?;
            self.mounts.push(mount);
            if number % AT_ONCE == 0 {
                self.turn(Duration::ZERO)?;
            }
        }
        // Those that have all are not asked again.
        let mut served = 0;
        while served < self.mounts.len() {
            self.turn(LOOK_UP)?;
            served += self.mounts[served..].iter().take_while(|mount| mount.is_ready()).count();
        }
        Ok(())
    }

    /// Reads nothing until the next order; pings go on, as those of a busy application do. Whether there is one.
    fn stand_still(&mut self, commands: &Receiver<Value>) -> Result<bool, BenchError> {
        loop {
            match commands.recv_timeout(TIMERS) {
                Ok(_) => return Ok(true),
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Err(RecvTimeoutError::Timeout) => self.mounts.iter_mut().try_for_each(Mount::on_wakeup)?,
            }
        }
    }

    /// Reads until nothing has come for a while.
    fn catch_up(&mut self) -> Result<(), BenchError> {
        self.came_at = clock::monotonic();
        while clock::monotonic() < self.came_at.after(QUIET) {
            self.turn(LOOK_UP)?;
        }
        Ok(())
    }

    fn turn(&mut self, timeout: Duration) -> Result<(), BenchError> {
        let ready: Vec<usize> = self.poller.wait(Some(timeout))?.map(|r| r.token.0 as usize).collect();
        if !ready.is_empty() {
            self.came_at = clock::monotonic();
        }
        for at in ready {
            read(&mut self.mounts[at], &mut self.bytes)?;
        }
        let now = clock::monotonic();
        if now >= self.timers_at {
            self.timers_at = now.after(TIMERS);
            self.mounts.iter_mut().try_for_each(Mount::on_wakeup)?;
        }
        Ok(())
    }
}
