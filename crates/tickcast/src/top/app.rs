//! What the keys do: the state of the screen, without the terminal and without sockets.

use super::rows::{ClientRow, ItemRow, Rows, Sort};
use crate::admin_client::encoded;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Tab,
}

/// The keys of what a terminal has sent. What is not known is left out.
pub(super) fn keys(bytes: &[u8]) -> Vec<Key> {
    let text = String::from_utf8_lossy(bytes);
    let (mut keys, mut rest) = (Vec::new(), &*text);
    while let Some(next) = rest.chars().next() {
        if let Some(sequence) = rest.strip_prefix("\x1b[").or_else(|| rest.strip_prefix("\x1bO")) {
            let end = sequence
                .find(|c: char| c.is_ascii_alphabetic() || c == '~')
                .map_or(sequence.len(), |at| at + 1);
            let key = match &sequence[..end] {
                "A" => Some(Key::Up),
                "B" => Some(Key::Down),
                "5~" => Some(Key::PageUp),
                "6~" => Some(Key::PageDown),
                "H" | "1~" => Some(Key::Home),
                "F" | "4~" => Some(Key::End),
                _ => None,
            };
            keys.extend(key);
            rest = &sequence[end..];
            continue;
        }
        rest = &rest[next.len_utf8()..];
        keys.extend(match next {
            '\x1b' => Some(Key::Escape),
            '\r' | '\n' => Some(Key::Enter),
            '\t' => Some(Key::Tab),
            '\x7f' | '\x08' => Some(Key::Backspace),
            c if c.is_control() => None,
            c => Some(Key::Char(c)),
        });
    }
    keys
}

/// Among what one chooses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Focus {
    #[default]
    Clients,
    Items,
}

/// A client that is opened, or to be disconnected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) daemon: usize,
    pub(super) address: String,
    pub(super) id: u64,
    pub(super) user: String,
    pub(super) peer: String,
}

/// An item or a client that is opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Details {
    pub(super) title: String,
    pub(super) lines: Vec<String>,
    pub(super) scroll: usize,
    /// It is a client.
    pub(super) client: Option<Target>,
    /// Where it is asked for, again and again.
    pub(super) source: Option<(usize, Subject)>,
}

/// What details are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Client(u64),
    Item { service: String, domain: u64, name: String },
}

impl Subject {
    /// Where a daemon tells of it.
    pub(super) fn path(&self) -> String {
        match self {
            Subject::Client(0) => "/status?limit=1".to_owned(),
            Subject::Client(id) => format!("/status?limit=1&after={}", id - 1),
            Subject::Item { service, domain, name } => {
                format!("/status?limit=1&item={domain}:{}&service={}", encoded(name), encoded(service))
            }
        }
    }
}

/// What the screen is for at present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    #[default]
    List,
    Details(Details),
    Help,
    /// A filter is typed.
    Filter(String),
    /// A client is to be disconnected if `y` is pressed.
    Confirm(Target),
}

/// What is to be done about a key beside showing something else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Details are wanted, of a daemon.
    Open(usize, Subject),
    Disconnect(Target),
    /// Clients are chosen by these parameters from now on.
    Filter(String),
    Sort,
    Pause,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct App {
    pub(super) rows: Rows,
    pub(super) mode: Mode,
    pub(super) focus: Focus,
    pub(super) sort: Sort,
    /// As a part of a URL's query.
    pub(super) filter: String,
    pub(super) is_paused: bool,
    /// What was done last, or why it was not.
    pub(super) message: String,
    /// The chosen client by daemon, id and address: it may move in the list.
    client: Option<(usize, u64, String)>,
    item: Option<(usize, String, u64, String)>,
}

/// Rows that a page has.
const PAGE: isize = 10;
/// Longest filter.
const FILTER_CHARS_MAX: usize = 200;

impl App {
    /// One that shows nothing yet, of clients that match a filter.
    pub(super) fn new(filter: &str) -> App {
        App { filter: filter.to_owned(), ..App::default() }
    }

    /// There is something newer to show.
    pub(super) fn show(&mut self, rows: Rows) {
        self.rows = rows;
    }

    pub(super) fn chosen_client(&self) -> Option<usize> {
        let chosen = self.client.as_ref();
        let place =
            chosen.and_then(|chosen| self.rows.clients.iter().position(|row| key_of_client(row) == *chosen));
        // One that is gone leaves the choice to the first.
        place.or((!self.rows.clients.is_empty()).then_some(0))
    }

    pub(super) fn chosen_item(&self) -> Option<usize> {
        let chosen = self.item.as_ref();
        let place =
            chosen.and_then(|chosen| self.rows.items.iter().position(|row| key_of_item(row) == *chosen));
        place.or((!self.rows.items.is_empty()).then_some(0))
    }

    pub(super) fn on_key(&mut self, key: Key) -> Option<Action> {
        self.message.clear();
        match std::mem::take(&mut self.mode) {
            Mode::Help => match key {
                Key::Char('q') => Some(Action::Quit),
                _ => None,
            },
            Mode::Filter(text) => self.edit_filter(text, key),
            Mode::Confirm(target) if key == Key::Char('y') => Some(Action::Disconnect(target)),
            Mode::Confirm(target) => {
                self.message = format!("{} stays connected", target.user);
                None
            }
            Mode::Details(details) => self.on_key_of_details(details, key),
            Mode::List => self.on_key_of_list(key),
        }
    }

    fn edit_filter(&mut self, mut text: String, key: Key) -> Option<Action> {
        match key {
            Key::Enter => match filter(&text) {
                Ok(filter) => {
                    self.filter.clone_from(&filter);
                    return Some(Action::Filter(filter));
                }
                Err(why) => {
                    self.message = why;
                    return None;
                }
            },
            Key::Escape => return None,
            Key::Backspace => drop(text.pop()),
            Key::Char(c) if text.chars().count() < FILTER_CHARS_MAX => text.push(c),
            _ => {}
        }
        self.mode = Mode::Filter(text);
        None
    }

    fn on_key_of_details(&mut self, mut details: Details, key: Key) -> Option<Action> {
        let last = details.lines.len().saturating_sub(1);
        match key {
            Key::Char('q') => return Some(Action::Quit),
            Key::Escape | Key::Backspace => return None,
            Key::Char('d') if details.client.is_some() => {
                self.mode = details.client.map_or(Mode::List, Mode::Confirm);
                return None;
            }
            _ => details.scroll = moved(details.scroll, key).unwrap_or(details.scroll).min(last),
        }
        self.mode = Mode::Details(details);
        None
    }

    fn on_key_of_list(&mut self, key: Key) -> Option<Action> {
        match key {
            Key::Char('q') => return Some(Action::Quit),
            Key::Char('h' | '?') => self.mode = Mode::Help,
            Key::Char('/' | 'f') => self.mode = Mode::Filter(String::new()),
            Key::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                return Some(Action::Pause);
            }
            Key::Char('s') => {
                self.sort = self.sort.next();
                return Some(Action::Sort);
            }
            Key::Tab => self.focus = if self.focus == Focus::Clients { Focus::Items } else { Focus::Clients },
            Key::Char('d') => match self.target() {
                Some(target) => self.mode = Mode::Confirm(target),
                None => "choose a client (Tab) to disconnect it".clone_into(&mut self.message),
            },
            Key::Enter => return self.open(),
            _ => self.choose(key),
        }
        None
    }

    fn choose(&mut self, key: Key) {
        let (chosen, count) = match self.focus {
            Focus::Clients => (self.chosen_client(), self.rows.clients.len()),
            Focus::Items => (self.chosen_item(), self.rows.items.len()),
        };
        let place =
            chosen.and_then(|chosen| moved(chosen, key)).map(|place| place.min(count.saturating_sub(1)));
        match (self.focus, place) {
            (Focus::Clients, Some(place)) => self.client = self.rows.clients.get(place).map(key_of_client),
            (Focus::Items, Some(place)) => self.item = self.rows.items.get(place).map(key_of_item),
            _ => {}
        }
    }

    /// The chosen client.
    fn target(&self) -> Option<Target> {
        let row = self.rows.clients.get(self.chosen_client().filter(|_| self.focus == Focus::Clients)?)?;
        let client = &row.client;
        Some(Target {
            daemon: row.daemon,
            address: row.address.clone(),
            id: client.id,
            user: client.user.clone(),
            peer: client.peer.clone(),
        })
    }

    fn open(&mut self) -> Option<Action> {
        let (title, client, daemon, subject) = match self.focus {
            Focus::Clients => {
                let target = self.target()?;
                let title = format!(
                    "{} of {} (client {} at {})",
                    target.user, target.peer, target.id, target.address
                );
                (title, Some(target.clone()), target.daemon, Subject::Client(target.id))
            }
            Focus::Items => {
                let row = self.rows.items.get(self.chosen_item()?)?;
                let item = &row.item;
                let (service, name) = (item.service.clone(), item.name.clone());
                let title = format!("{} of {} at {}", name, service, row.address);
                (title, None, row.daemon, Subject::Item { service, domain: item.domain, name })
            }
        };
        let (lines, source) = (vec!["asking ...".to_owned()], Some((daemon, subject.clone())));
        self.mode = Mode::Details(Details { title, lines, scroll: 0, client, source });
        Some(Action::Open(daemon, subject))
    }

    /// A daemon has told of something that is opened, or why it does not.
    pub(super) fn on_details(&mut self, from: usize, subject: &Subject, lines: Vec<String>) {
        if let Mode::Details(details) = &mut self.mode
            && details.source.as_ref().is_some_and(|(daemon, of)| *daemon == from && of == subject)
        {
            details.scroll = details.scroll.min(lines.len().saturating_sub(1));
            details.lines = lines;
        }
    }
}

fn key_of_client(row: &ClientRow) -> (usize, u64, String) {
    (row.daemon, row.client.id, row.client.peer.clone())
}

fn key_of_item(row: &ItemRow) -> (usize, String, u64, String) {
    (row.daemon, format!("{}/{}", row.role, row.item.service), row.item.domain, row.item.name.clone())
}

/// Where a key leads in a list, if it is one that moves.
fn moved(from: usize, key: Key) -> Option<usize> {
    Some(match key {
        Key::Up | Key::Char('k') => from.saturating_sub(1),
        Key::Down | Key::Char('j') => from.saturating_add(1),
        Key::PageUp => from.saturating_add_signed(-PAGE),
        Key::PageDown => from.saturating_add_signed(PAGE),
        Key::Home => 0,
        Key::End => usize::MAX,
        _ => return None,
    })
}

const FILTERS: [&str; 7] =
    ["user", "application", "application_id", "address", "protocol", "state", "backlog_min"];

/// A filter as a part of a URL's query: `KEY=VALUE`, or how a user's name begins.
pub(super) fn filter(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text.split_once('=') {
        None if text.is_empty() => Ok(String::new()),
        None => Ok(format!("user={}*", encoded(text.trim_end_matches('*')))),
        Some((key, value)) if FILTERS.contains(&key.trim()) => {
            Ok(format!("{}={}", key.trim(), encoded(value.trim())))
        }
        Some((key, _)) => {
            Err(format!("clients cannot be filtered by {:?}: {}", key.trim(), FILTERS.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::daemons;
    use super::*;

    fn app() -> App {
        let mut app = App::default();
        app.show(Rows::of(&daemons(), Sort::Backlog));
        app
    }

    fn press(app: &mut App, bytes: &str) -> Vec<Action> {
        keys(bytes.as_bytes()).into_iter().filter_map(|key| app.on_key(key)).collect()
    }

    #[test]
    fn bytes_of_a_terminal_are_keys() {
        let all = keys(b"q\x1b[A\x1bOB\x1b[5~\x1b[6~\x1b[H\x1b[4~\r\x7f\t\x1b[1;5C\x01\xc3\xa4\xff\x1b");
        let expected = [
            Key::Char('q'),
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::PageDown,
            Key::Home,
            Key::End,
            Key::Enter,
            Key::Backspace,
            Key::Tab,
            Key::Char('\u{e4}'),
            Key::Char('\u{fffd}'),
            Key::Escape,
        ];
        assert_eq!(all, expected);
        assert_eq!(keys(b"\x1b["), []);
    }

    #[test]
    fn a_client_is_disconnected_when_it_is_confirmed_and_only_then() {
        let mut app = app();
        assert_eq!(press(&mut app, "\x1b[Bd"), []);
        let Mode::Confirm(target) = app.mode.clone() else { panic!("it asks first: {:?}", app.mode) };
        assert_eq!(
            (target.id, &*target.user, &*target.peer, target.daemon),
            (1, "desk-1", "10.0.0.1:4000", 0)
        );
        for other in ["n", "\r", "\x1b", "d", "Y"] {
            assert_eq!(press(&mut app, other), [], "{other:?}");
            assert_eq!(app.message, "desk-1 stays connected");
            press(&mut app, "d");
        }
        assert_eq!(press(&mut app, "y"), [Action::Disconnect(target)]);
        assert_eq!(app.mode, Mode::List);
        press(&mut app, "\td");
        assert_eq!((&app.mode, &*app.message), (&Mode::List, "choose a client (Tab) to disconnect it"));
    }

    #[test]
    fn the_chosen_client_stays_chosen_wherever_it_moves() {
        let mut app = app();
        press(&mut app, "j");
        app.show(Rows::of(&daemons(), Sort::Rate));
        assert_eq!(app.rows.clients[app.chosen_client().expect("one is")].client.user, "desk-1");
        press(&mut app, "\x1b[H");
        assert_eq!(app.chosen_client(), Some(0));
        press(&mut app, "\x1b[F\x1b[B\x1b[6~");
        assert_eq!(app.chosen_client(), Some(2));
        app.show(Rows::default());
        press(&mut app, "jd\r");
        assert_eq!((app.chosen_client(), &app.mode), (None, &Mode::List));
    }

    #[test]
    fn details_are_asked_for_shown_scrolled_and_left() {
        let mut app = app();
        assert_eq!(press(&mut app, "\r"), [Action::Open(0, Subject::Client(7))]);
        app.on_details(0, &Subject::Client(8), vec!["of another".to_owned()]);
        app.on_details(0, &Subject::Client(7), vec!["one".to_owned(), "two".to_owned()]);
        press(&mut app, "jjj");
        let Mode::Details(details) = &app.mode else { panic!("{:?}", app.mode) };
        assert_eq!((&*details.lines[0], details.scroll), ("one", 1));
        press(&mut app, "d");
        assert!(matches!(&app.mode, Mode::Confirm(target) if target.id == 7));
        press(&mut app, "n\t\r");
        assert!(
            matches!(&app.mode, Mode::Details(details) if details.title == "BTCUSDT of BINANCE at localhost:14082")
        );
        press(&mut app, "\x1b");
        assert_eq!(app.mode, Mode::List);
        assert_eq!(Subject::Client(7).path(), "/status?limit=1&after=6");
        let item = Subject::Item { service: "A B".to_owned(), domain: 8, name: "X&Y".to_owned() };
        assert_eq!(item.path(), "/status?limit=1&item=8:X%26Y&service=A%20B");
    }

    #[test]
    fn filters_are_checked_and_sent() {
        let mut app = app();
        assert_eq!(press(&mut app, "/desk\r"), [Action::Filter("user=desk*".to_owned())]);
        assert_eq!(
            press(&mut app, "/address=10.0.0.0/24x\x7f\r"),
            [Action::Filter("address=10.0.0.0/24".to_owned())]
        );
        assert_eq!(press(&mut app, "/colour=red\r"), []);
        assert!(app.message.starts_with("clients cannot be filtered by \"colour\": user, "));
        assert_eq!((press(&mut app, "/q\x1b"), &*app.filter), (vec![], "address=10.0.0.0/24"));
        assert_eq!(press(&mut app, "/\r"), [Action::Filter(String::new())]);
    }

    #[test]
    fn other_keys_do_what_the_help_says() {
        let mut app = app();
        assert_eq!(press(&mut app, "hx"), []);
        assert_eq!(press(&mut app, "sp "), [Action::Sort, Action::Pause, Action::Pause]);
        assert_eq!((app.sort, app.is_paused), (Sort::Rate, false));
        assert_eq!(press(&mut app, "q"), [Action::Quit]);
        assert_eq!(press(&mut app, "?q"), [Action::Quit]);
    }
}
