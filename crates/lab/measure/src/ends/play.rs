use std::io::Write;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::link::Yielding;
use super::observing::Observing;
use super::{End, Failure, Link, pingpong, stream};

/// Plays the role until the input ends, on links that are connected already: one, or for streams several at
/// once.
///
/// # Errors
/// A link's, a command that cannot be understood, or a role that is none.
pub fn play<L: Link>(end: &End, links: &mut [L]) -> Result<(), Failure> {
    let Some(observe) = &end.observe else { return play_in_turn(end, links) };
    let mut observing = Observing::links(end, observe, links)?;
    play_in_turn(end, &mut observing)?;
    observing.iter().try_for_each(Observing::write)
}

/// Leaves the CPU to others meanwhile, if it has to.
fn play_in_turn<L: Link>(end: &End, links: &mut [L]) -> Result<(), Failure> {
    if !end.yields {
        return play_role(end, links);
    }
    let mut links: Vec<Yielding<'_, L>> = links.iter_mut().map(Yielding).collect();
    play_role(end, &mut links)
}

fn play_role<L: Link>(end: &End, links: &mut [L]) -> Result<(), Failure> {
    let commands = commands();
    match (end.role.as_str(), links) {
        ("reflector", [link]) => pingpong::reflect(end, link, &commands),
        ("pingpong", [link]) => pingpong::ask(end, link, &commands),
        ("receiver", links) => stream::receive(end, links, &commands),
        ("stream", links) => stream::send(end, links, &commands),
        (role @ ("reflector" | "pingpong"), links) => {
            Err(format!("a {role} has one link, not {}", links.len()).into())
        }
        (other, _) => Err(format!("a role is pingpong, reflector, stream or receiver, not {other}").into()),
    }
}

/// Answers the process that has started this one.
pub fn answer(value: &Value) {
    // One that is gone does not wait for it: its end is seen at standard input.
    let _ = writeln!(std::io::stdout(), "{value}");
}

/// The commands that a program gets, one JSON object a line; the end of them is the end of its role.
pub fn commands() -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if let Ok(value) = serde_json::from_str(&line)
                && sender.send(value).is_err()
            {
                return;
            }
        }
    });
    receiver
}

/// Turns of a receiving loop between two looks at the commands.
pub(crate) const LOOK_EVERY: u32 = 1024;

/// The next command, while the links go on.
pub(crate) fn next<L: Link>(links: &mut [L], commands: &Receiver<Value>) -> Result<Option<Value>, Failure> {
    loop {
        match commands.try_recv() {
            Ok(command) => return Ok(Some(command)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => links.iter_mut().try_for_each(L::turn)?,
        }
    }
}

/// Sends a message as soon as there is room.
#[inline]
pub(crate) fn send(link: &mut impl Link, message: &[u8]) -> Result<(), Failure> {
    while !link.send(message)? {
        link.turn()?;
    }
    Ok(())
}

/// Sends a message, or drops it if there is no room for some time: a receiver that reflects must not wait for a sender that
/// waits for it.
pub(crate) fn send_or_drop(link: &mut impl Link, message: &[u8]) -> Result<(), Failure> {
    for _ in 0..SEND_TRIES {
        if link.send(message)? {
            return Ok(());
        }
    }
    Ok(())
}

/// How often a reflected message is tried.
const SEND_TRIES: u32 = 100;

pub(crate) fn seconds(command: &Value) -> Result<Duration, Failure> {
    let seconds = command["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
    Ok(Duration::from_secs_f64(seconds.ok_or_else(|| format!("a run needs seconds: {command}"))?))
}
