use std::io::Write;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::observing::Observing;
use super::{End, Failure, Link, pingpong, stream};

/// Plays the role until the input ends, on links that are connected already: one, or for streams several at
/// once.
///
/// # Errors
/// A link's, a command that cannot be understood, or a role that is none.
pub fn play<L: Link>(end: &End, links: &mut [L]) -> Result<(), Failure> {
    let Some(observe) = &end.observe else { return play_role(end, links) };
    let mut observing = Observing::links(end, observe, links)?;
    play_role(end, &mut observing)?;
    observing.iter().try_for_each(Observing::write)
}

fn play_role<L: Link>(end: &End, links: &mut [L]) -> Result<(), Failure> {
    let commands = commands();
    match (end.role.as_str(), links) {
        ("reflector", [link]) => pingpong::reflect(end, link, &commands),
        ("pingpong", [link]) => pingpong::ask(end, link, &commands),
        ("receiver", links) => stream::receive(links, &commands),
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

pub(crate) fn seconds(command: &Value) -> Result<Duration, Failure> {
    let seconds = command["seconds"].as_f64().filter(|seconds| *seconds > 0.0);
    Ok(Duration::from_secs_f64(seconds.ok_or_else(|| format!("a run needs seconds: {command}"))?))
}
