//! The head of a file: what the records are of. `docs/observer.md` has the table.

use std::ops::Range;

use net::resident::Pages;
use net::timekeeping::Discipline;

use crate::{Calibration, Clock, Line};

/// How a file begins.
pub const MAGIC: [u8; 8] = *b"TICKOBSV";
/// Of the format.
pub const VERSION: u32 = 1;
/// Bytes before the first record.
pub const HEAD_BYTES: usize = 1024;
/// Bytes of a record.
pub const RECORD_BYTES: usize = 16;
/// Bytes of the check sum behind the last record.
pub const SUM_BYTES: usize = 4;
/// Records that a recorder or a file can have: 512 GiB.
pub const MOST_RECORDS: u64 = 1 << 35;
/// Longest name of a point, a stream, a host or a program, bytes.
pub(crate) const NAME_BYTES: usize = 64;

/// Read in the other order of bytes it is another number.
const ORDER: u64 = 0x0102_0304_0506_0708;

const CALIBRATION_BYTES: usize = 80;
const START_AT: usize = 72;
const END_AT: usize = START_AT + CALIBRATION_BYTES;
// A text is two bytes of its length, then room for so many bytes.
const POINT_AT: usize = END_AT + CALIBRATION_BYTES;
const STREAM_AT: usize = POINT_AT + 2 + NAME_BYTES;
const HOST_AT: usize = STREAM_AT + 2 + NAME_BYTES;
const BOOT_AT: usize = HOST_AT + 2 + NAME_BYTES;
const BOOT_BYTES: usize = 36;
const SOURCE_AT: usize = BOOT_AT + 2 + BOOT_BYTES;
const SOURCE_BYTES: usize = 32;
const END_SOURCE_AT: usize = SOURCE_AT + 2 + SOURCE_BYTES;
const PROGRAM_AT: usize = END_SOURCE_AT + 2 + SOURCE_BYTES;
const _: () = assert!(POINT_AT == 232 && PROGRAM_AT == 536 && PROGRAM_AT + 2 + NAME_BYTES == 602);

const LOCKED: u32 = 1;
const RESERVED: u32 = 2;
const TRANSPARENT: u32 = 4;

/// What a file says of its records.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// How many there are.
    pub records: u64,
    /// How many there would be more, had there been room.
    pub lost: u64,
    /// For how many there was room.
    pub capacity: u64,
    /// What their times are of.
    pub clock: Clock,
    /// The process that was observed.
    pub pid: u32,
    /// What a call of the recorder cost there, nanoseconds.
    pub cost_ns: f64,
    /// Whether the memory could not be taken away.
    pub is_locked: bool,
    /// What pages it was of.
    pub pages: Pages,
    /// When the recorder was made.
    pub start: Calibration,
    /// When the file was written.
    pub end: Calibration,
    /// Where the messages were observed, as `sender`.
    pub point: String,
    /// Which messages, if there are several kinds with the same ids; often empty.
    pub stream: String,
    /// The host's name.
    pub host: String,
    /// What the kernel calls its start; equal for all processes of a kernel.
    pub boot_id: String,
    /// What the kernel made its clocks of, at the start and at the end.
    pub clock_sources: [String; 2],
    /// The program that was observed.
    pub program: String,
}

impl Head {
    /// Times of the records as nanoseconds on `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn to_monotonic(&self) -> Line {
        if self.clock == Clock::Monotonic {
            return Line::SAME;
        }
        let at = |calibration: &Calibration| (calibration.ticks, calibration.monotonic_ns);
        // What was read or is written has been looked at.
        Line::through(at(&self.start), at(&self.end)).unwrap_or(Line::SAME)
    }

    /// How far [`Head::to_monotonic`] may be off, nanoseconds.
    #[must_use]
    pub fn error_ns(&self) -> u64 {
        if self.clock == Clock::Monotonic { 1 } else { self.start.error_ns(&self.end) }
    }

    /// Bytes of the whole file.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        HEAD_BYTES as u64 + self.records * RECORD_BYTES as u64 + SUM_BYTES as u64
    }

    /// As a file begins.
    #[must_use]
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &MAGIC);
        put(8, &VERSION.to_le_bytes());
        put(12, &(HEAD_BYTES as u32).to_le_bytes());
        put(16, &ORDER.to_le_bytes());
        put(24, &self.records.to_le_bytes());
        put(32, &self.lost.to_le_bytes());
        put(40, &self.capacity.to_le_bytes());
        put(48, &(self.clock as u32).to_le_bytes());
        put(52, &self.pid.to_le_bytes());
        put(56, &self.cost_ns.to_le_bytes());
        let pages = match self.pages {
            Pages::Reserved => RESERVED,
            Pages::Transparent => TRANSPARENT,
            Pages::Small => 0,
        };
        put(64, &(pages | u32::from(self.is_locked)).to_le_bytes());
        put(START_AT, &encode_calibration(&self.start));
        put(END_AT, &encode_calibration(&self.end));
        let [source, end_source] = &self.clock_sources;
        for (at, most, text) in [
            (POINT_AT, NAME_BYTES, &self.point),
            (STREAM_AT, NAME_BYTES, &self.stream),
            (HOST_AT, NAME_BYTES, &self.host),
            (BOOT_AT, BOOT_BYTES, &self.boot_id),
            (SOURCE_AT, SOURCE_BYTES, source),
            (END_SOURCE_AT, SOURCE_BYTES, end_source),
            (PROGRAM_AT, NAME_BYTES, &self.program),
        ] {
            let text = within(text, most);
            put(at, &(text.len() as u16).to_le_bytes());
            put(at + 2, text.as_bytes());
        }
        bytes
    }

    /// From the beginning of a file.
    ///
    /// # Errors
    /// It is none of this format; the text names what is wrong, where, and what it could be.
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Head, String> {
        let fields = Fields(bytes);
        fields.check_format()?;
        let clock = fields.u32(48);
        let clock = Clock::by_number(clock)
            .ok_or_else(|| format!("byte 48: clock {clock}; known are 1 (tsc) to 3 (monotonic-raw)"))?;
        let flags = fields.u32(64);
        let head = Head {
            records: fields.u64(24),
            lost: fields.u64(32),
            capacity: fields.u64(40),
            clock,
            pid: fields.u32(52),
            cost_ns: f64::from_le_bytes(fields.array(56)),
            is_locked: flags & LOCKED != 0,
            pages: match flags {
                flags if flags & RESERVED != 0 => Pages::Reserved,
                flags if flags & TRANSPARENT != 0 => Pages::Transparent,
                _ => Pages::Small,
            },
            start: fields.calibration(START_AT),
            end: fields.calibration(END_AT),
            point: fields.text("point", POINT_AT, NAME_BYTES)?,
            stream: fields.text("stream", STREAM_AT, NAME_BYTES)?,
            host: fields.text("host", HOST_AT, NAME_BYTES)?,
            boot_id: fields.text("boot id", BOOT_AT, BOOT_BYTES)?,
            clock_sources: [
                fields.text("clock source", SOURCE_AT, SOURCE_BYTES)?,
                fields.text("clock source at the end", END_SOURCE_AT, SOURCE_BYTES)?,
            ],
            program: fields.text("program", PROGRAM_AT, NAME_BYTES)?,
        };
        head.check()?;
        Ok(head)
    }

    fn check(&self) -> Result<(), String> {
        let (records, capacity) = (self.records, self.capacity);
        if !(1..=MOST_RECORDS).contains(&capacity) {
            return Err(format!("byte 40: a capacity of {capacity} records; it is 1 to {MOST_RECORDS}"));
        }
        if records > capacity {
            return Err(format!("byte 24: {records} records where there was room for {capacity}"));
        }
        if !(0.0..=1e9).contains(&self.cost_ns) {
            return Err(format!("byte 56: a call costs {} ns; it is 0 to 1e9", self.cost_ns));
        }
        if self.point.is_empty() {
            return Err(format!("byte {POINT_AT}: the point has no name"));
        }
        let (start, end) = (&self.start, &self.end);
        for (name, from, to) in [
            ("CLOCK_MONOTONIC", start.monotonic_ns, end.monotonic_ns),
            ("CLOCK_MONOTONIC_RAW", start.raw_ns, end.raw_ns),
            ("CLOCK_TAI", start.tai_ns, end.tai_ns),
        ] {
            if from.max(to) > i64::MAX as u64 {
                return Err(format!("bytes {START_AT} and {END_AT}: {name} is past the year 2262"));
            }
        }
        let (begun, ended) = (start.monotonic_ns, end.monotonic_ns);
        for (name, from, to) in [
            ("ticks", start.ticks, end.ticks),
            ("CLOCK_MONOTONIC", begun, ended),
            ("CLOCK_MONOTONIC_RAW", start.raw_ns, end.raw_ns),
        ] {
            if Line::through((from, begun), (to, ended)).is_none() {
                let span = i128::from(ended) - i128::from(begun);
                return Err(format!(
                    "bytes {START_AT} and {END_AT}: {name} from {from} to {to} in {span} ns is no clock"
                ));
            }
        }
        Ok(())
    }
}

fn encode_calibration(moment: &Calibration) -> [u8; CALIBRATION_BYTES] {
    let discipline = &moment.discipline;
    let numbers = [
        moment.ticks,
        moment.monotonic_ns,
        moment.raw_ns,
        moment.realtime_ns,
        moment.tai_ns,
        moment.uncertainty_ns,
        discipline.estimated_error_us,
        discipline.maximum_error_us,
        discipline.frequency as u64,
        u64::from(discipline.is_synchronised) | (discipline.tai_offset_s as u32 as u64) << 32,
    ];
    let mut bytes = [0; CALIBRATION_BYTES];
    bytes
        .chunks_exact_mut(8)
        .zip(numbers)
        .for_each(|(place, number)| place.copy_from_slice(&number.to_le_bytes()));
    bytes
}

/// As much of a text as there is room for.
fn within(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most.min(text.len()))]
}

struct Fields<'a>(&'a [u8; HEAD_BYTES]);

impl Fields<'_> {
    fn array<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    fn check_format(&self) -> Result<(), String> {
        if self.0[..8] != MAGIC {
            return Err("it does not begin with TICKOBSV, so it is no file of observations".to_owned());
        }
        let (version, order, head) = (self.u32(8), self.u64(16), self.u32(12));
        if order == ORDER.swap_bytes() {
            return Err("byte 16: it was written in the other order of bytes (big-endian)".to_owned());
        }
        if version != VERSION {
            return Err(format!("byte 8: version {version}; this program reads version {VERSION}"));
        }
        if head as usize != HEAD_BYTES || order != ORDER {
            return Err(format!(
                "bytes 12 to 23: a head of {head} bytes, order mark {order:#x}; they are 1024 and {ORDER:#x}"
            ));
        }
        Ok(())
    }

    fn text(&self, name: &str, at: usize, most: usize) -> Result<String, String> {
        let length = usize::from(u16::from_le_bytes(self.array(at)));
        let range: Range<usize> = at + 2..at + 2 + length;
        let bytes = self.0.get(range).filter(|_| length <= most);
        let bytes =
            bytes.ok_or_else(|| format!("byte {at}: a {name} of {length} bytes; it is at most {most}"))?;
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains(char::is_control));
        let text = text.ok_or_else(|| format!("byte {at}: the {name} is no text of one line in UTF-8"))?;
        Ok(text.to_owned())
    }

    fn calibration(&self, at: usize) -> Calibration {
        let [
            ticks,
            monotonic_ns,
            raw_ns,
            realtime_ns,
            tai_ns,
            uncertainty_ns,
            estimated_error_us,
            maximum_error_us,
            frequency,
            more,
        ] = std::array::from_fn(|number| self.u64(at + 8 * number));
        let discipline = Discipline {
            is_synchronised: more & 1 != 0,
            estimated_error_us,
            maximum_error_us,
            frequency: frequency as i64,
            tai_offset_s: (more >> 32) as u32 as i32,
        };
        Calibration { ticks, monotonic_ns, raw_ns, realtime_ns, tai_ns, uncertainty_ns, discipline }
    }
}
