//! The items as a table that is redrawn in place.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::time::Duration;

use client::{ConsumerEvent, ItemEvent};
use market::image::{Image, MapImage};
use rwf::{DataState, Dictionary, Domain, Value};
use units::Nanos;

use super::item::Watched;
use super::source::Source;
use super::{View, WatchArgs, plain};
use crate::terminal::{self, Style};

/// Redrawn so often at most: more than an eye can follow.
const INTERVAL: Duration = Duration::from_millis(100);
/// Rates are counted over this time.
const RATE_INTERVAL: Duration = Duration::from_secs(1);
/// Levels shown of each side of a book.
const BOOK_LEVELS: usize = 8;
/// Lines about the session kept below the table.
const NOTES: usize = 3;

/// What a cell shows whose field cannot be read; a note says why.
const UNREADABLE: &str = "?";

const FIELDS: [(&str, &str); 8] = [
    ("BIDSIZE", "bid size"),
    ("BID", "bid"),
    ("ASK", "ask"),
    ("ASKSIZE", "ask size"),
    ("TRDPRC_1", "last"),
    ("ACVOL_1", "volume"),
    ("NUM_MOVES", "trades"),
    ("QUOTIM_MS", "quoted"),
];

pub(super) struct Screen {
    title: String,
    columns: Vec<Column>,
    rows: Vec<Row>,
    notes: VecDeque<String>,
    drawn_lines: usize,
    colours: bool,
    due: Nanos,
    rates_due: Nanos,
}

struct Column {
    field: String,
    title: String,
}

/// What was drawn of an item last.
#[derive(Clone, Default)]
struct Row {
    cells: Vec<Cell>,
    updates_before: u64,
    updates_per_second: u64,
}

#[derive(Clone, Default)]
struct Cell {
    text: String,
    tone: Tone,
    /// When it got its text.
    since: Nanos,
}

/// How a changed cell is shown.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Tone {
    #[default]
    Plain,
    Up,
    Down,
    Other,
}

/// A change is shown for so long.
const TONE_LASTS: Duration = Duration::from_millis(700);

impl Tone {
    fn of(before: &str, now: &str) -> Tone {
        match (before.parse::<f64>(), now.parse::<f64>()) {
            (Ok(before), Ok(now)) if now > before => Tone::Up,
            (Ok(before), Ok(now)) if now < before => Tone::Down,
            _ if before.is_empty() => Tone::Plain,
            _ => Tone::Other,
        }
    }

    fn paint(self, text: &str) -> String {
        match self {
            Tone::Plain => text.to_owned(),
            Tone::Up => format!("\x1b[32m{text}\x1b[0m"),
            Tone::Down => format!("\x1b[31m{text}\x1b[0m"),
            Tone::Other => format!("\x1b[1m{text}\x1b[0m"),
        }
    }
}

impl Screen {
    pub(super) fn new(args: &WatchArgs, style: Style) -> Screen {
        let hosts: Vec<String> = args.host.iter().map(ToString::to_string).collect();
        let usual = FIELDS
            .iter()
            .map(|(field, title)| Column { field: (*field).to_owned(), title: (*title).to_owned() });
        let asked = args.fields.iter().map(|field| Column { field: field.clone(), title: field.clone() });
        Screen {
            title: format!("{} at {}", args.service, hosts.join(", ")),
            columns: if args.fields.is_empty() { usual.collect() } else { asked.collect() },
            rows: Vec::new(),
            notes: VecDeque::new(),
            drawn_lines: 0,
            colours: style.colours,
            due: Nanos(0),
            rates_due: Nanos(0),
        }
    }

    fn note(&mut self, text: String) {
        self.notes.push_back(text);
        if self.notes.len() > NOTES {
            self.notes.pop_front();
        }
    }

    fn take(&mut self, now: Nanos, items: &[Watched], consumer: &Source) {
        self.rows.resize_with(items.len(), Row::default);
        let is_rate_due = now >= self.rates_due;
        if is_rate_due {
            self.rates_due = now.after(RATE_INTERVAL);
        }
        for (item, row) in items.iter().zip(&mut self.rows) {
            if is_rate_due {
                row.updates_per_second = item.update_count - row.updates_before;
                row.updates_before = item.update_count;
            }
            row.cells.resize_with(self.columns.len(), Cell::default);
            for (column, cell) in self.columns.iter().zip(&mut row.cells) {
                let text = match consumer.image_field(item.handle, column.field.as_str()) {
                    Ok(value) => value.map_or_else(String::new, |value| cell_text(&column.field, &value)),
                    Err(_) => UNREADABLE.to_owned(),
                };
                if text != cell.text {
                    (cell.tone, cell.since) = (Tone::of(&cell.text, &text), now);
                    cell.text = text;
                } else if now >= cell.since.after(TONE_LASTS) {
                    cell.tone = Tone::Plain;
                }
            }
        }
    }

    /// What is wrong with a field, in place of what was said of it before.
    fn note_again(&mut self, item: &str, field: &str, why: &str) -> String {
        let subject = format!("{item}: {field} ");
        self.notes.retain(|note| !note.starts_with(&subject));
        format!("{item}: {why}")
    }

    fn lines(&self, items: &[Watched], consumer: &Source) -> Vec<String> {
        let mut lines = vec![format!("\x1b[1m{}\x1b[0m   (Ctrl-C ends)", self.title), String::new()];
        let prices = || items.iter().zip(&self.rows).filter(|(item, _)| !is_book(item));
        if prices().next().is_some() {
            lines.extend(self.table(prices().collect()));
        }
        for (item, row) in items.iter().zip(&self.rows).filter(|(item, _)| is_book(item)) {
            lines.push(String::new());
            let levels = match consumer.image(item.handle).map(market::CachedItem::image) {
                Some(Image::Map(map)) => book(map, consumer.dictionary().map(|d| &**d)),
                _ => Vec::new(),
            };
            lines.push(format!(
                "\x1b[1m{}\x1b[0m  {}  {} updates, {}/s",
                item.name,
                state(item),
                item.update_count,
                row.updates_per_second
            ));
            lines.extend(levels);
        }
        lines.push(String::new());
        lines.extend(self.notes.iter().cloned());
        lines
    }

    fn table(&self, rows: Vec<(&Watched, &Row)>) -> Vec<String> {
        let name_width = rows.iter().map(|(item, _)| item.name.to_string().len()).max().unwrap_or(0).max(4);
        let widths: Vec<usize> = (0..self.columns.len())
            .map(|i| {
                let widest = rows.iter().map(|(_, row)| row.cells[i].text.chars().count()).max().unwrap_or(0);
                widest.max(self.columns[i].title.len())
            })
            .collect();
        let mut head = format!("{:<name_width$}", "item");
        for (column, width) in self.columns.iter().zip(&widths) {
            head += &format!("  {:>width$}", column.title);
        }
        head += &format!("  {:>9}  {:>7}  state", "updates", "per s");
        let mut lines = vec![format!("\x1b[2m{head}\x1b[0m")];
        for (item, row) in rows {
            let mut line = format!("{:<name_width$}", item.name.to_string());
            for (cell, width) in row.cells.iter().zip(&widths) {
                line += &format!("  {}", cell.tone.paint(&format!("{:>width$}", cell.text)));
            }
            line += &format!("  {:>9}  {:>7}  {}", item.update_count, row.updates_per_second, state(item));
            lines.push(line);
        }
        lines
    }

    fn draw(&mut self, lines: &[String], out: &mut dyn Write) -> io::Result<()> {
        if self.drawn_lines > 0 {
            write!(out, "\x1b[{}A", self.drawn_lines)?;
        }
        write!(out, "\r")?;
        // A line that wraps, or is scrolled away, could not be drawn over.
        let (columns, height) = terminal::size().unwrap_or((usize::MAX, usize::MAX));
        let shown = &lines[..lines.len().min(height - 1)];
        for line in shown {
            writeln!(out, "{}\x1b[K", terminal::fit(line, columns, self.colours))?;
        }
        // What was longer before goes.
        write!(out, "\x1b[J")?;
        self.drawn_lines = shown.len();
        Ok(())
    }
}

impl View for Screen {
    fn on_event(
        &mut self,
        event: &ConsumerEvent<'_>,
        items: &[Watched],
        _: &mut dyn Write,
    ) -> io::Result<()> {
        let note = match event {
            ConsumerEvent::Item(event) if event.is_update() || event.is_refresh() => {
                let name = items[event.tag() as usize].name.to_string();
                unreadable(event).map(|(field, why)| self.note_again(&name, &field, &why))
            }
            ConsumerEvent::Item(event) => {
                Some(format!("{}: {}", items[event.tag() as usize].name, event.state()))
            }
            event => plain::session_line(event),
        };
        if let Some(note) = note {
            self.note(note);
        }
        Ok(())
    }

    fn on_hint(&mut self, text: &str, _: &mut dyn Write) -> io::Result<()> {
        self.note(text.to_owned());
        Ok(())
    }

    fn on_turn(
        &mut self,
        now: Nanos,
        items: &[Watched],
        consumer: &Source,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        if now < self.due {
            return Ok(());
        }
        self.due = now.after(INTERVAL);
        self.take(now, items, consumer);
        let lines = self.lines(items, consumer);
        self.draw(&lines, out)
    }

    fn next_wakeup(&self) -> Nanos {
        self.due
    }

    fn on_end(&mut self, items: &[Watched], consumer: &Source, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.lines(items, consumer);
        self.draw(&lines, out)
    }
}

/// The first field of a message that cannot be read: its name, and what is wrong with it.
fn unreadable(event: &ItemEvent<'_>) -> Option<(String, String)> {
    let field = event.fields().ok()?.or_raw().find_map(Result::err)?;
    let name = if field.name().is_empty() {
        field.id.map_or(String::new(), |id| id.0.to_string())
    } else {
        field.name().to_owned()
    };
    Some((name, field.to_string()))
}

fn is_book(item: &Watched) -> bool {
    item.name.domain == Domain::MARKET_BY_PRICE
}

fn state(item: &Watched) -> String {
    let state = item.last_state.borrow();
    match (item.is_closed, state.data) {
        (false, DataState::Ok) => "\x1b[32mok\x1b[0m".to_owned(),
        (true, _) => format!("\x1b[31m{state}\x1b[0m"),
        (false, _) => format!("\x1b[33m{state}\x1b[0m"),
    }
}

fn cell_text(field: &str, value: &Value<'_>) -> String {
    match value {
        // Milliseconds since midnight, as a time.
        Value::UInt(ms) if field.ends_with("TIM_MS") => {
            let (second, ms) = (ms / 1000, ms % 1000);
            format!("{:02}:{:02}:{:02}.{ms:03}", second / 3600, second / 60 % 60, second % 60)
        }
        value => plain::text(value, None),
    }
}

/// The best levels of both sides, next to each other.
fn book(map: &MapImage, dictionary: Option<&Dictionary>) -> Vec<String> {
    let Some(dictionary) = dictionary else { return Vec::new() };
    let id = |name: &str| dictionary.field_by_name(name).map(|field| field.id);
    let (Some(price), Some(side), Some(size)) = (id("ORDER_PRC"), id("ORDER_SIDE"), id("ORDER_SIZE")) else {
        return Vec::new();
    };
    let (mut bids, mut asks) = (Vec::new(), Vec::new());
    for fields in map.entries().filter_map(|(_, entry)| entry.fields()) {
        let value = |id| Value::decode(dictionary.data_type(id), fields.field(id)?).ok();
        let (Some(Value::Real(at)), Some(size), Some(Value::Enum(side))) =
            (value(price), value(size), value(side))
        else {
            continue;
        };
        let level = (at.to_f64(), plain::text(&Value::Real(at), None), plain::text(&size, None));
        if side.0 == 1 { bids.push(level) } else { asks.push(level) }
    }
    bids.sort_by(|a, b| b.0.total_cmp(&a.0));
    asks.sort_by(|a, b| a.0.total_cmp(&b.0));
    let shown = bids.len().max(asks.len()).min(BOOK_LEVELS);
    let text = |levels: &[(f64, String, String)], i: usize| {
        levels.get(i).map_or((String::new(), String::new()), |(_, price, size)| (price.clone(), size.clone()))
    };
    let mut lines: Vec<String> = (0..shown)
        .map(|i| {
            let ((bid, bid_size), (ask, ask_size)) = (text(&bids, i), text(&asks, i));
            format!("{bid_size:>14}  \x1b[32m{bid:>12}\x1b[0m  \x1b[31m{ask:<12}\x1b[0m  {ask_size:<14}")
        })
        .collect();
    lines.push(format!(
        "\x1b[2m{:>14}  {:>12}  {:<12}\x1b[0m",
        "",
        format!("{} bids", bids.len()),
        format!("{} asks", asks.len())
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::item::tests::{BID_AS_UINT, update};
    use super::*;

    #[test]
    fn a_cell_shows_whether_it_went_up_or_down() {
        assert!(Tone::of("1.5", "1.6") == Tone::Up && Tone::of("10", "9.5") == Tone::Down);
        assert!(Tone::of("", "1") == Tone::Plain && Tone::of("a", "b") == Tone::Other);
    }

    #[test]
    fn a_field_that_cannot_be_read_is_named_once_below_the_table() {
        let (field, why) = update(BID_AS_UINT).view(unreadable).expect("a wrong field");
        let wrong = "BID cannot be read as REAL: real hint: value 31, at most 30; its bytes: 0x1f01";
        assert_eq!((field.as_str(), why.as_str()), ("BID", wrong));
        let mut screen = Screen {
            title: String::new(),
            columns: Vec::new(),
            rows: Vec::new(),
            notes: VecDeque::from(["connected".to_owned(), "A: BID cannot be read as before".to_owned()]),
            colours: true,
            drawn_lines: 0,
            due: Nanos(0),
            rates_due: Nanos(0),
        };
        assert_eq!(screen.note_again("A", &field, &why), format!("A: {wrong}"));
        assert_eq!(screen.notes, ["connected"]);
    }

    #[test]
    fn milliseconds_of_a_day_are_shown_as_a_time() {
        assert_eq!(cell_text("QUOTIM_MS", &Value::UInt(86_055_007)), "23:54:15.007");
        assert_eq!(cell_text("NO_ORD", &Value::UInt(7)), "7");
    }
}
