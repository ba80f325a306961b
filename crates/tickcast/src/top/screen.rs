//! What a window shows: pure text of what is known, cut to the window by who prints it.

use super::app::{App, Focus, Mode};
use super::hops::{AtMost, HopRow};
use super::look::Drain;
use super::rows::{ClientRow, DaemonRow, ItemRow, Rows, ServiceRow};
use super::table::{self, Column, number, text};

const DAEMONS: [Column; 11] = [
    text("DAEMON", 9, 32),
    text("ROLE", 4, 18),
    text("STATE", 8, 24),
    text("UP", 3, 8),
    text("VERSION", 1, 12),
    number("ITEMS", 2),
    number("CLIENTS", 5),
    number("IN/S", 6),
    number("OUT/S", 6),
    number("LOST", 7),
    text("BUSY", 8, 256),
];
const SERVICES: [Column; 6] = [
    text("SERVICE", 9, 24),
    text("STATE", 8, 8),
    text("AT", 5, 32),
    text("SOURCE", 2, 16),
    number("ITEMS", 3),
    number("MSGS/S", 6),
];
const HOPS: [Column; 7] = [
    text("HOP", 9, 20),
    number("UPDATES", 5),
    number("P50 us", 7),
    number("P99 us", 8),
    number("MAX us", 6),
    text("ROLE", 2, 18),
    text("AT", 3, 32),
];
const CLIENTS: [Column; 11] = [
    number("BACKLOG", 9),
    text("STEP", 8, 9),
    text("USER", 9, 20),
    text("APPLICATION", 4, 20),
    text("ADDRESS", 5, 21),
    text("PROTOCOL", 2, 9),
    number("STREAMS", 3),
    number("MSGS/S", 7),
    number("CHANGED", 6),
    number("CONFLATED", 6),
    text("AT", 1, 32),
];
const ITEMS: [Column; 6] = [
    number("UPDATES/S", 9),
    text("ITEM", 9, 32),
    text("SERVICE", 6, 24),
    number("DOMAIN", 2),
    number("WATCHERS", 5),
    text("AT", 1, 40),
];

fn daemon(row: &DaemonRow) -> Vec<String> {
    let optional = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
    let is_known = !row.role.is_empty();
    let state = match (row.reason.is_empty(), is_known) {
        (true, _) => row.drain.as_ref().map_or_else(|| "up".to_owned(), drain),
        (false, true) => format!("no answer for {}", table::span(row.age_s * 1000)),
        (false, false) => "no answer".to_owned(),
    };
    let share = |(name, share): &(String, Option<f64>)| {
        format!("{name} {}", share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", share * 100.0)))
    };
    let if_known = |text: String| if is_known { text } else { String::new() };
    let of_p2ps = |text: String| if row.role == "feed" { String::new() } else { if_known(text) };
    // A reason needs the room of what is not known then.
    let last = match row.reason.is_empty() {
        true => row.threads.iter().map(share).collect::<Vec<String>>().join(", "),
        false => row.reason.clone(),
    };
    vec![
        row.address.clone(),
        row.role.clone(),
        state,
        if_known(table::span(row.uptime_ms)),
        row.version.clone(),
        optional(row.items),
        of_p2ps(row.connections.to_string()),
        of_p2ps(table::rate(row.in_per_s)),
        of_p2ps(table::rate(row.out_per_s)),
        optional(row.lost),
        last,
    ]
}

fn drain(drain: &Drain) -> String {
    match &*drain.state {
        "draining" => format!("draining {}, {}", drain.left, table::span(drain.ends_in_ms)),
        state => state.to_owned(),
    }
}

fn service(row: &ServiceRow) -> Vec<String> {
    vec![
        row.name.clone(),
        if row.up { "up" } else { "down" }.to_owned(),
        row.address.clone(),
        row.source.clone(),
        row.items.map_or_else(String::new, |items| items.to_string()),
        table::rate(row.messages_per_s),
    ]
}

fn hop(row: &HopRow) -> Vec<String> {
    let at_most = |latency: AtMost| match latency {
        AtMost::None => "-".to_owned(),
        AtMost::Us(us) => format!("<={us}"),
        AtMost::More => ">1s".to_owned(),
    };
    vec![
        row.hop.clone(),
        row.updates.to_string(),
        at_most(row.p50),
        at_most(row.p99),
        at_most(row.max),
        row.role.clone(),
        row.address.clone(),
    ]
}

fn client(row: &ClientRow) -> Vec<String> {
    let client = &row.client;
    vec![
        table::bytes(client.backlog_bytes),
        if client.state == "login" { client.state.clone() } else { client.step.clone() },
        client.user.clone(),
        client.application.clone(),
        client.peer.clone(),
        client.protocol.clone(),
        client.streams.to_string(),
        table::rate(row.messages_per_s),
        client.changed.to_string(),
        client.conflated.to_string(),
        row.address.clone(),
    ]
}

fn item(row: &ItemRow) -> Vec<String> {
    let item = &row.item;
    vec![
        table::rate(Some(item.per_second)),
        item.name.clone(),
        item.service.clone(),
        item.domain.to_string(),
        item.watchers.to_string(),
        format!("{} {}", row.address, row.role),
    ]
}

fn cells<T>(rows: &[T], make: impl Fn(&T) -> Vec<String>) -> Vec<Vec<String>> {
    rows.iter().map(make).collect()
}

fn clients_title(rows: &Rows, sort: &str, filter: &str) -> String {
    let part = if rows.is_part { ", of the first 10,000 of each P2PS" } else { "" };
    let filter = if filter.is_empty() { String::new() } else { format!(", {filter}") };
    let (shown, matched, total) = (rows.clients.len(), rows.matched, rows.total);
    let of = if matched == total { format!("{total}") } else { format!("{matched} that match, of {total}") };
    format!("CLIENTS by {sort}: {shown} of {of}{part}{filter}")
}

fn items_title(rows: &Rows) -> String {
    let text = if rows.items.is_empty() && rows.awaits_items { ": not known yet" } else { "" };
    format!("BUSIEST ITEMS{text}")
}

/// Everything, for a file or a pipe: as wide and as long as it is.
pub(super) fn plain(rows: &Rows, sort: &str, filter: &str) -> Vec<String> {
    let (width, title) = (usize::MAX, clients_title(rows, sort, filter));
    let mut lines = table::lines(&DAEMONS, &cells(&rows.daemons, daemon), width);
    lines.push(String::new());
    lines.extend(table::lines(&SERVICES, &cells(&rows.services, service), width));
    if !rows.hops.is_empty() {
        lines.push(String::new());
        lines.extend(table::lines(&HOPS, &cells(&rows.hops, hop), width));
    }
    lines.extend([String::new(), title]);
    lines.extend(table::lines(&CLIENTS, &cells(&rows.clients, client), width));
    lines.extend([String::new(), items_title(rows)]);
    lines.extend(table::lines(&ITEMS, &cells(&rows.items, item), width));
    lines
}

/// Before a row, whether it is chosen.
const MARK: usize = 2;

const BOLD: &str = "\x1b[1m";
const REVERSE: &str = "\x1b[7m";
const RED: &str = "\x1b[31m";
const RESET: &str = "\x1b[0m";

fn painted(paint: &str, line: &str) -> String {
    format!("{paint}{line}{RESET}")
}

/// The lines of a window; those too long are cut by who prints them. No more than `height`.
pub(super) fn window(app: &App, width: usize, height: usize) -> Vec<String> {
    let mut lines = match &app.mode {
        Mode::Help => HELP.lines().map(str::to_owned).collect(),
        Mode::Details(details) => {
            let mut lines = vec![painted(BOLD, &details.title), String::new()];
            let room = height.saturating_sub(3);
            lines.extend(details.lines.iter().skip(details.scroll).take(room).cloned());
            lines
        }
        Mode::List | Mode::Filter(_) | Mode::Confirm(_) => list(app, width, height.saturating_sub(1)),
    };
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), String::new());
    lines.push(foot(app));
    // A window of no height shows nothing.
    lines.truncate(height);
    lines
}

fn foot(app: &App) -> String {
    match &app.mode {
        Mode::Filter(text) => format!("filter: {text}_   Enter takes it, Esc leaves it"),
        Mode::Confirm(target) => painted(
            REVERSE,
            &format!("disconnect {} of {} (client {} at {})? y disconnects", target.user, target.peer, target.id, target.address),
        ),
        _ if !app.message.is_empty() => painted(BOLD, &app.message),
        Mode::Details(_) => "Esc back  up/down scroll  d disconnect a client  q quit".to_owned(),
        Mode::Help => "any key: back".to_owned(),
        Mode::List => {
            "q quit  h help  Tab clients/items  up/down choose  Enter open  s sort  / filter  p pause  d disconnect".to_owned()
        }
    }
}

fn list(app: &App, width: usize, height: usize) -> Vec<String> {
    let rows = &app.rows;
    let paused = if app.is_paused { "  PAUSED" } else { "" };
    let mut lines = vec![painted(BOLD, &format!("tickcast top{paused}"))];
    // Each part has its share of what is left; clients and items share the rest.
    let daemons = table::lines(&DAEMONS, &cells(&rows.daemons, daemon), width);
    let is_wrong: Vec<bool> = rows.daemons.iter().map(|row| !row.reason.is_empty()).collect();
    let most = (height / 4).max(3);
    lines.extend(head_and(daemons, most, |at, line| if is_wrong[at] { painted(RED, &line) } else { line }));
    if height >= 20 {
        let services = table::lines(&SERVICES, &cells(&rows.services, service), width);
        let is_down: Vec<bool> = rows.services.iter().map(|row| !row.up).collect();
        lines.push(String::new());
        lines.extend(head_and(services, (height / 5).max(3), |at, line| {
            if is_down[at] { painted(RED, &line) } else { line }
        }));
    }
    // The foot has a line of the window's 30.
    if height >= 29 && !rows.hops.is_empty() {
        lines.push(String::new());
        let hops = table::lines(&HOPS, &cells(&rows.hops, hop), width);
        lines.extend(head_and(hops, (height / 5).max(7), |_, line| line));
    }
    let left = height.saturating_sub(lines.len());
    let (of_items, of_clients) = match (left >= 14, app.focus) {
        // A title, a head and a blank line each.
        (true, _) => {
            let spare = left.saturating_sub(rows.clients.len() + 3);
            ((left / 3).max(spare).min(rows.items.len() + 3).max(4), left)
        }
        (false, Focus::Clients) => (0, left),
        (false, Focus::Items) => (left, 0),
    };
    let of_clients = if of_items < left { of_clients - of_items } else { 0 };
    if of_clients > 0 {
        let body = table::lines(&CLIENTS, &cells(&rows.clients, client), width.saturating_sub(MARK));
        let title = clients_title(rows, app.sort.name(), &app.filter);
        let chosen = app.chosen_client();
        lines.extend(chooser(&title, body, of_clients, chosen, app.focus == Focus::Clients));
    }
    if of_items > 0 {
        let body = table::lines(&ITEMS, &cells(&rows.items, item), width.saturating_sub(MARK));
        let chosen = app.chosen_item();
        lines.extend(chooser(&items_title(rows), body, of_items, chosen, app.focus == Focus::Items));
    }
    lines
}

/// The head of a table and the first rows, of `most` lines in all.
fn head_and(table: Vec<String>, most: usize, paint: impl Fn(usize, String) -> String) -> Vec<String> {
    let (count, mut lines) = (table.len(), Vec::new());
    for (at, line) in table.into_iter().enumerate().take(most) {
        lines.push(if at == 0 { painted(BOLD, &line) } else { paint(at - 1, line) });
    }
    if count > most {
        lines.pop();
        lines.push(format!("... {} more", count - most + 1));
    }
    lines
}

/// A table with a title of which one row is chosen, which is always in sight; `room` lines with a blank one before.
fn chooser(
    title: &str,
    table: Vec<String>,
    room: usize,
    chosen: Option<usize>,
    has_focus: bool,
) -> Vec<String> {
    let mark = |is_marked: bool| if is_marked { "> " } else { "  " };
    let mut table = table.into_iter();
    let head = table.next().unwrap_or_default();
    let mut lines = vec![
        String::new(),
        painted(BOLD, &format!("{}{title}", mark(has_focus))),
        painted(BOLD, &format!("{}{head}", mark(false))),
    ];
    let seen = room.saturating_sub(lines.len());
    let first = chosen.map_or(0, |chosen| (chosen + 1).saturating_sub(seen));
    for (at, line) in table.enumerate().skip(first).take(seen) {
        let is_chosen = has_focus && chosen == Some(at);
        // Colours may be left out.
        let line = format!("{}{line}", mark(is_chosen));
        lines.push(if is_chosen { painted(REVERSE, &line) } else { line });
    }
    lines.truncate(room);
    lines
}

pub(super) const HELP: &str = "\
tickcast top: what daemons do, by their admin ports

  q, Ctrl-C      quit
  h, ?           this page
  Tab            choose among clients, or among items
  up, down, j, k choose; PageUp, PageDown, Home, End
  Enter          open a client or an item: everything its daemon says of it
  Esc            back
  s              sort clients by backlog, messages/s, conflated updates, user
  /              filter clients: a user's name or how it begins, or KEY=VALUE with
                 user, application, application_id, address, protocol, state,
                 backlog_min; nothing shows all
  p, space       pause: the screen stays as it is
  d              disconnect the chosen client; it asks first. The client is told,
                 and its SDK connects again; the P2PS's log names who asked

Each P2PS sends its clients with the longest backlogs (--limit); all orders are among
these. STEP is tick (every update), conflated (the newest values when there is room)
or interval (the newest values in rounds).
CHANGED are streams whose newest values wait for room, CONFLATED updates left out so far.
A P2PS that is drained shows how many connections are left, and how long it may take.
BUSY is the share of its time that a thread works; a thread that spins on its sockets
may be busy with looking. LOST are messages of the backbone since the start.
HOP says how long updates with hop stamps took since the look before, to the next power
of two in microseconds (source_distributor.hop_stamps); windows of 30 lines show it.
";

#[cfg(test)]
mod tests {
    use super::super::rows::Sort;
    use super::super::rows::tests::daemons;
    use super::*;
    use crate::terminal;

    fn app() -> App {
        let mut app = App::default();
        app.show(Rows::of(&daemons(), Sort::Backlog));
        app
    }

    /// What is seen of a window.
    fn seen(app: &App, width: usize, height: usize) -> String {
        let lines = window(app, width, height);
        assert!(lines.len() <= height, "{} lines", lines.len());
        let fitted = lines.iter().map(|line| terminal::fit(line, width, false).trim_end().to_owned());
        fitted.collect::<Vec<String>>().join("\n")
    }

    #[test]
    fn a_wide_window_shows_everything() {
        let expected = "\
tickcast top
DAEMON           ROLE  STATE      UP      VERSION  ITEMS  CLIENTS  IN/S  OUT/S  LOST  BUSY
localhost:14082  p2ps  up         26h03m  0.1.0       24       20   500   1500     3  p2ps 25%, p2ps shard 0 90%
backup:14082           no answer                                                      connection refused: no admin port is open there

SERVICE  STATE  AT               SOURCE  ITEMS  MSGS/S
BINANCE  up     localhost:14082  00f1       24     510

> CLIENTS by backlog: 3 of 20
  BACKLOG  STEP       USER    APPLICATION  ADDRESS        PROTOCOL  STREAMS  MSGS/S  CHANGED  CONFLATED  AT
>    5.0M  conflated  frozen  viewer       10.0.0.7:4000  rssl           12     0.0        4        120  localhost:14082
       10  tick       desk-1  viewer       10.0.0.1:4000  rssl           12     250        0          0  localhost:14082
        0  tick       desk-2  viewer       10.0.0.2:4000  rssl           12     750        0          0  localhost:14082

  BUSIEST ITEMS
  UPDATES/S  ITEM     SERVICE  DOMAIN  WATCHERS  AT
        322  BTCUSDT  BINANCE       6         2  localhost:14082 p2ps
         90  ETHUSDT  BINANCE       6         2  localhost:14082 p2ps



q quit  h help  Tab clients/items  up/down choose  Enter open  s sort  / filter  p pause  d disconnect";
        assert_eq!(seen(&app(), 140, 22), expected);
    }

    #[test]
    fn a_narrow_and_low_window_shows_what_matters_most() {
        let expected = "\
tickcast top
DAEMON           STATE      BUSY
localhost:14082  up         p2ps 25%, p2
backup:14082     no answer  connection r

> CLIENTS by backlog: 3 of 20
  BACKLOG  STEP       USER    MSGS/S
>    5.0M  conflated  frozen     0.0
       10  tick       desk-1     250
q quit  h help  Tab clients/items  up/do";
        assert_eq!(seen(&app(), 40, 10), expected);
        let mut app = app();
        app.focus = Focus::Items;
        assert!(
            seen(&app, 40, 10)
                .contains("> BUSIEST ITEMS\n  UPDATES/S  ITEM     SERVICE  WATCHERS\n>       322  BTCUSDT")
        );
    }

    #[test]
    fn no_window_is_too_small_and_none_is_exceeded() {
        let mut app = app();
        let details = super::super::app::Details { lines: vec!["x".to_owned(); 50], ..Default::default() };
        for mode in [Mode::List, Mode::Help, Mode::Details(details), Mode::Filter("u".to_owned())] {
            app.mode = mode;
            for height in 0..40 {
                for width in [0, 1, 10, 80] {
                    seen(&app, width, height);
                }
            }
        }
    }

    #[test]
    fn the_chosen_client_is_in_sight_however_far_down_it_is() {
        let mut rows = Rows::of(&daemons(), Sort::Backlog);
        let one = rows.clients[1].clone();
        for id in 100..200 {
            let mut more = one.clone();
            (more.client.id, more.client.user) = (id, format!("user-{id}"));
            rows.clients.push(more);
        }
        let mut app = App::default();
        app.show(rows);
        for _ in 0..60 {
            app.on_key(super::super::app::Key::Down);
        }
        let shown =
            window(&app, 80, 20).into_iter().find(|line| line.starts_with(REVERSE)).expect("one is chosen");
        assert!(shown.contains("user-157"), "{shown}");
    }

    #[test]
    fn hops_are_shown_where_there_is_room_and_updates_have_stamps() {
        let mut rows = Rows::of(&daemons(), Sort::Backlog);
        rows.hops.push(HopRow {
            address: "localhost:14082".to_owned(),
            role: "p2ps".to_owned(),
            hop: "backbone".to_owned(),
            updates: 500,
            p50: AtMost::Us(64),
            p99: AtMost::Us(256),
            max: AtMost::More,
        });
        let expected = "\
HOP       UPDATES  P50 us  P99 us  MAX us  ROLE  AT
backbone      500    <=64   <=256     >1s  p2ps  localhost:14082";
        assert!(plain(&rows, "backlog", "").join("\n").contains(&format!("\n\n{expected}\n\n")));
        let mut app = App::default();
        app.show(rows);
        assert!(seen(&app, 140, 30).contains(expected));
        assert!(!seen(&app, 140, 29).contains("backbone"));
    }

    #[test]
    fn a_drain_is_the_state_of_its_daemon() {
        let mut all = daemons();
        let shown = |all: &[super::super::rows::Daemon]| {
            plain(&Rows::of(all, Sort::Backlog), "backlog", "")[1].clone()
        };
        let draining = Drain { state: "draining".to_owned(), left: 17, moved: 3, ends_in_ms: 42_000 };
        all[0].looks[0].roles[0].drain = Some(draining.clone());
        assert!(shown(&all).starts_with("localhost:14082  p2ps  draining 17, 42s "), "{}", shown(&all));
        let json = Rows::of(&all, Sort::Backlog).to_json();
        assert_eq!(
            (&json["daemons"][0]["drain"]["moved"], &json["daemons"][1]["drain"]),
            (&3.into(), &().into())
        );
        all[0].looks[0].roles[0].drain = Some(Drain { state: "drained".to_owned(), ..draining });
        assert!(shown(&all).starts_with("localhost:14082  p2ps  drained "), "{}", shown(&all));
        all[0].reason = Some("no answer within 5 s".to_owned());
        assert!(shown(&all).contains("p2ps  no answer for "), "{}", shown(&all));
    }

    #[test]
    fn a_file_gets_everything_without_colours() {
        let mut rows = Rows::of(&daemons(), Sort::Backlog);
        let text = plain(&rows, "backlog", "").join("\n");
        assert!(!text.contains('\x1b') && text.contains("frozen") && text.contains("ETHUSDT"), "{text}");
        assert!(text.contains("connection refused: no admin port is open there"));
        (rows.items, rows.awaits_items, rows.matched, rows.is_part) = (Vec::new(), true, 2, true);
        let text = plain(&rows, "backlog", "user=desk-*").join("\n");
        assert!(text.contains("BUSIEST ITEMS: not known yet"));
        let title =
            "CLIENTS by backlog: 3 of 2 that match, of 20, of the first 10,000 of each P2PS, user=desk-*";
        assert!(text.contains(title), "{text}");
    }

    #[test]
    fn a_daemon_that_answers_no_more_keeps_what_it_said_last_and_shows_why() {
        let mut all = daemons();
        (all[0].reason, all[0].age_s) = (Some("no answer within 5 s".to_owned()), 7);
        let mut app = App::default();
        app.show(Rows::of(&all, Sort::Backlog));
        let text = seen(&app, 140, 24);
        assert!(text.contains("no answer for 7s") && text.contains("no answer within 5 s"), "{text}");
        assert!(text.contains("frozen"));
    }
}
