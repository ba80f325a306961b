//! `tickcast top`: what running daemons do, by their admin ports, live in a terminal or as one snapshot.
//!
//! [`poll`] asks each daemon on a thread of its own through [`admin_client`]; [`look`] reads the answers, whatever is at the
//! address; [`rows`] makes tables of the last two answers of each; [`app`] is what the keys do, and [`screen`] what is
//! shown. Only this module has a terminal.

mod app;
mod hops;
mod look;
mod poll;
mod rows;
mod screen;
mod table;

use std::io::{self, IsTerminal, Read, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use self::app::{Action, App, Mode};
use self::poll::{News, Questions, Wish};
use self::rows::{Daemon, Rows, Sort};
use crate::admin_client;
use crate::failure::Failure;
use crate::host::Stop;
use crate::terminal::{self, RawMode, Style};

/// Which daemons to look at, and how to show them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tickcast top localhost:14082                    a P2PS, live
  tickcast top 14081 14082 hostb:14082            a source distributor and two P2PSs; a number is a port of this host
  tickcast top --filter user=desk-* 14082         clients of users whose names begin with desk-
  tickcast top --once 14082 | grep conflated      one snapshot as text
  tickcast top --json 14082 | jq '.clients[0]'    one snapshot as JSON: daemons, services, clients, items

An address is that of an admin port: admin.interface and admin.port in the daemon's configuration.

Keys:
  q, Ctrl-C      quit
  h, ?           help
  Tab            choose among clients, or among items
  up, down, j, k choose; PageUp, PageDown, Home, End
  Enter          open a client or an item: everything its daemon says of it
  Esc            back
  s              sort clients by backlog, messages/s, conflated updates, user
  /              filter clients: how a user's name begins, or KEY=VALUE with user, application, application_id,
                 address, protocol, state, backlog_min
  p, space       pause
  d              disconnect the chosen client; it asks first, and y does it

A client is disconnected only where the daemon allows it (admin.disconnects). It is told that an operator disconnects it,
and its SDK connects again. The P2PS's log names who asked.

Without a terminal, or on a dumb one, it prints a snapshot each interval. NO_COLOR leaves colours out.

Exit status: 0 done; 1 with --once or --json, if an address did not answer (the others are shown all the same);
2 wrong usage.")]
pub(crate) struct TopArgs {
    /// Admin ports.
    #[arg(required = true, value_name = "ADDRESS", value_parser = admin_client::address, num_args = 1..=ADDRESSES_MAX)]
    addresses: Vec<String>,
    /// Seconds between two looks at a daemon.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    interval: Duration,
    /// So many clients of each P2PS, those with the longest backlogs.
    #[arg(long, value_name = "CLIENTS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Only clients that match: how a user's name begins, or KEY=VALUE.
    #[arg(long, value_name = "FILTER", default_value = "", value_parser = app::filter)]
    filter: String,
    /// Prints one snapshot as text; rates are those of one interval.
    #[arg(long)]
    once: bool,
    /// Prints one snapshot as JSON.
    #[arg(long)]
    json: bool,
}

const ADDRESSES_MAX: usize = 64;

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds, such as 2 or 0.5".to_owned())?;
    let is_possible = (0.25..=3_600.0).contains(&seconds);
    is_possible
        .then(|| Duration::from_secs_f64(seconds))
        .ok_or_else(|| "from 0.25 to 3600 seconds".to_owned())
}

pub(crate) fn run(args: &TopArgs) -> Result<(), Failure> {
    let style = Style::of_environment();
    if args.once || args.json {
        return once(args);
    }
    let stop = Stop::default();
    stop.end_on_signals()?;
    if io::stdout().is_terminal() && io::stdin().is_terminal() && style.moves {
        return live(args, &stop, style);
    }
    repeat(args, &stop)
}

fn questions(args: &TopArgs) -> Questions {
    Questions::new(args.limit as usize, &args.filter)
}

/// More looks than two, if a daemon does not know its busiest items by then: it looks at 256 in a millisecond at most.
const LOOKS_MAX: usize = 20;
const NEXT_LOOK: Duration = Duration::from_millis(500);

/// One snapshot: two looks at each daemon, so that there are rates.
fn once(args: &TopArgs) -> Result<(), Failure> {
    let ask = |address: &String| {
        let (mut daemon, mut questions) =
            (Daemon { address: address.clone(), ..Daemon::default() }, questions(args));
        for look in 0..LOOKS_MAX {
            match questions.look(&mut |method, path| admin_client::ask(address, method, path)) {
                Ok(look) => daemon.take(look),
                Err(reason) => {
                    daemon.reason = Some(reason);
                    break;
                }
            }
            let is_done = look > 0 && !Rows::of(std::slice::from_ref(&daemon), Sort::Backlog).awaits_items;
            if is_done {
                break;
            }
            thread::sleep(if look == 0 { args.interval } else { NEXT_LOOK });
        }
        daemon
    };
    let daemons: Vec<Daemon> = thread::scope(|scope| {
        let asked: Vec<_> = args.addresses.iter().map(|address| scope.spawn(|| ask(address))).collect();
        asked.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let rows = Rows::of(&daemons, Sort::Backlog);
    let text = if args.json {
        rows.to_json().to_string() + "\n"
    } else {
        screen::plain(&rows, Sort::Backlog.name(), &args.filter).join("\n") + "\n"
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)?;
    let failed: Vec<String> = daemons
        .iter()
        .filter_map(|daemon| Some(format!("{}: {}", daemon.address, daemon.reason.as_ref()?)))
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::Run(failed.join("\ntickcast: "))) }
}

/// The daemons, each asked on its thread.
struct Watched {
    daemons: Vec<Daemon>,
    /// When each has answered last.
    answered_at: Vec<Instant>,
    wishes: Vec<Sender<Wish>>,
    news: Receiver<(usize, News)>,
    interval: Duration,
}

/// A daemon that has not answered for so long beyond the interval is shown as one that does not.
const OVERDUE: Duration = Duration::from_secs(2);

impl Watched {
    fn start(args: &TopArgs) -> io::Result<Watched> {
        let (sender, news) = mpsc::channel();
        let mut wishes = Vec::new();
        for (place, address) in args.addresses.iter().enumerate() {
            let (wish, wished) = mpsc::channel();
            let (address, questions, sender, interval) =
                (address.clone(), questions(args), sender.clone(), args.interval);
            thread::Builder::new().name(format!("ask {address}")).spawn(move || {
                let mut ask = |method: &str, path: &str| admin_client::ask(&address, method, path);
                poll::run(place, questions, interval, &mut ask, (&wished, &sender));
            })?;
            wishes.push(wish);
        }
        let daemon = |address: &String| Daemon { address: address.clone(), ..Daemon::default() };
        Ok(Watched {
            daemons: args.addresses.iter().map(daemon).collect(),
            answered_at: vec![Instant::now(); args.addresses.len()],
            wishes,
            news,
            interval: args.interval,
        })
    }

    fn wish(&self, daemon: usize, wish: Wish) {
        if let Some(wishes) = self.wishes.get(daemon) {
            // Its thread is there as long as this is.
            let _ = wishes.send(wish);
        }
    }

    /// Takes in what has come. Returns whether there is anything.
    fn take(&mut self, app: &mut App) -> bool {
        let mut has_news = false;
        while let Ok((place, news)) = self.news.try_recv() {
            has_news = true;
            match news {
                News::Look(Ok(look)) => {
                    self.daemons[place].take(look);
                    self.answered_at[place] = Instant::now();
                    self.refresh_details(place, app);
                }
                News::Look(Err(reason)) => self.daemons[place].reason = Some(reason),
                News::Details(subject, lines) => app.on_details(place, &subject, lines),
                News::Said(text) => app.message = text,
            }
        }
        for (daemon, answered_at) in self.daemons.iter_mut().zip(&self.answered_at) {
            let age = answered_at.elapsed();
            daemon.age_s = age.as_secs();
            if daemon.reason.is_none() && age > self.interval + OVERDUE {
                daemon.reason = Some("it is slow to answer".to_owned());
            }
        }
        has_news
    }

    /// What is open is asked for again with each look.
    fn refresh_details(&self, place: usize, app: &App) {
        if let Mode::Details(details) = &app.mode
            && let Some((daemon, subject)) = details.source.as_ref().filter(|_| !app.is_paused)
            && *daemon == place
        {
            self.wish(place, Wish::Open(subject.clone()));
        }
    }
}

/// Snapshots as text, one after the other.
fn repeat(args: &TopArgs, stop: &Stop) -> Result<(), Failure> {
    let (mut watched, mut app) = (Watched::start(args)?, App::default());
    while !stop.wait(args.interval) {
        watched.take(&mut app);
        let rows = Rows::of(&watched.daemons, Sort::Backlog);
        let text = screen::plain(&rows, Sort::Backlog.name(), &args.filter).join("\n") + "\n\n";
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Failure::Output)?;
    }
    Ok(())
}

fn live(args: &TopArgs, stop: &Stop, style: Style) -> Result<(), Failure> {
    let mut watched = Watched::start(args)?;
    let mut app = App::new(&args.filter);
    let _raw = RawMode::enter()?;
    let (mut drawn_at, mut is_due, mut size) = (Instant::now(), true, (0, 0));
    while !stop.is_set() {
        is_due |= watched.take(&mut app) || drawn_at.elapsed() > Duration::from_secs(1);
        let now = terminal::size().unwrap_or((80, 24));
        if is_due || now != size {
            if !app.is_paused {
                app.show(Rows::of(&watched.daemons, app.sort));
            }
            (drawn_at, is_due, size) = (Instant::now(), false, now);
            draw(&app, size, style).map_err(Failure::Output)?;
        }
        let begun = Instant::now();
        let mut bytes = [0; 64];
        let count = match io::stdin().lock().read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => other?,
        };
        if count == 0 && begun.elapsed() < KEY_WAIT / 2 {
            // A terminal that is gone has always nothing to say.
            thread::sleep(KEY_WAIT);
        }
        for key in app::keys(&bytes[..count]) {
            is_due = true;
            if let Some(action) = app.on_key(key)
                && !act(action, &mut app, &watched)
            {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// So long a key is waited for: the screen is redrawn as often if there is something new.
const KEY_WAIT: Duration = Duration::from_millis(100);

/// Does what a key wants. False: quit.
fn act(action: Action, app: &mut App, watched: &Watched) -> bool {
    match action {
        Action::Quit => return false,
        Action::Open(daemon, subject) => watched.wish(daemon, Wish::Open(subject)),
        Action::Disconnect(target) => {
            app.message = format!("disconnecting {} of {} ...", target.user, target.peer);
            watched.wish(target.daemon, Wish::Disconnect(target));
        }
        Action::Filter(filter) => {
            (0..watched.daemons.len()).for_each(|daemon| watched.wish(daemon, Wish::Filter(filter.clone())));
        }
        Action::Sort | Action::Pause => app.show(Rows::of(&watched.daemons, app.sort)),
    }
    true
}

fn draw(app: &App, (columns, height): (usize, usize), style: Style) -> io::Result<()> {
    let lines = screen::window(app, columns, height);
    let fitted: Vec<String> =
        lines.iter().map(|line| terminal::fit(line, columns, style.colours) + "\x1b[K").collect();
    let mut out = io::stdout().lock();
    write!(out, "\x1b[H{}\x1b[J", fitted.join("\r\n"))?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_bounds() {
        assert_eq!(interval("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["0.1", "-1", "3601", "NaN", "fast"] {
            assert!(interval(wrong).is_err(), "{wrong}");
        }
    }
}
