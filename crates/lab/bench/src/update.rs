//! The updates that workloads send, with the time at which each was meant to be sent: the published one of 74 bytes of
//! payload, the same in 74 bytes with its header, or one of any number of fields.

use clap::Args;
use rwf::dictionary::{Field, FieldType};
use rwf::{
    DataType, Dictionary, Domain, Enum, FieldList, FieldListWriter, Msg, MsgClass, Real, Value, Writer,
};
use units::Nanos;

use crate::BenchError;
use crate::template::Template;

/// Bytes of the message without its key that [`message`] makes: header and 10 fields.
pub(crate) const UPDATE_BYTES: usize = 74;
/// Bytes of the payload of the same.
const SHORT_PAYLOAD: u16 = 63;
/// Bytes of the payload of the updates of the published reports, without any header.
const PUBLISHED_PAYLOAD: u16 = 74;
/// Bytes of id and length in front of the content of a field.
const FIELD_HEAD_BYTES: u16 = 3;
/// The longest content of a field whose length takes one byte.
const FIELD_BYTES_MAX: u16 = 0xFD;
/// The field that fills up a payload: a text.
const FILLER: i16 = 3;

/// Nanoseconds on the monotonic clock at which the update was meant to be sent.
const TIM_TRK_1: i16 = 3902;
/// Number of the run that ends with this update; 0 in all others.
const TIM_TRK_2: i16 = 3903;
/// Number of a numbered update among those of its item, from 1; as an image has it, that of the last one in it. In updates
/// that are not numbered, nanoseconds on the monotonic clock at which the update was sent; 0 if nobody has said so.
const TIM_TRK_3: i16 = 3904;

/// Writes the fields of an update. `n` makes its prices.
#[inline]
pub(crate) fn write(w: &mut Writer<'_>, n: u64, intended: Nanos, ends_run: u8) {
    w.field_list(|f| {
        f.encoded(TIM_TRK_1, &intended.0.to_be_bytes());
        f.encoded(TIM_TRK_2, &[ends_run]);
        put_quote(f, price(n));
    });
}

#[inline]
fn price(n: u64) -> i64 {
    20_000 + (n % 10_000) as i64
}

#[inline]
fn put_quote(f: &mut FieldListWriter<'_, '_, '_>, price: i64) {
    f.put(22, Real::decimal(price, 2));
    f.put(25, Real::decimal(price + 4, 2));
    f.put(30, Real::decimal(9, 0));
    f.put(31, Real::decimal(36, 0));
    f.put(6, Real::decimal(price + 2, 2));
    f.put(178, Real::decimal(100, 0));
    f.put(32, Real::decimal(36_000_000 + price, 0));
    f.put(14, Enum(1));
}

/// What the images and updates of a workload are like.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Profile {
    /// Bytes of the payload of images and updates, without any header. 74 are those of the published reports: 11 fields,
    /// three of them stamps. 63 leave out the third one, so that the message has 74 bytes with its header of 11. 77 to 330
    /// have a text beside the 11 fields.
    #[arg(long, value_name = "BYTES", default_value_t = PUBLISHED_PAYLOAD, value_parser = payload_bytes)]
    payload: u16,
    /// Fields of an image, with the types of a vendor's record of a stock, in place of a payload of a given length.
    #[arg(long, value_name = "COUNT", conflicts_with = "payload", value_parser = clap::value_parser!(u16).range(STAMPS..=300))]
    image_fields: Option<u16>,
    /// Fields of an update, spread over those of the image; all if it is not given. Two of them are the stamps that the
    /// workload reads.
    #[arg(long, value_name = "COUNT", requires = "image_fields", value_parser = clap::value_parser!(u16).range(STAMPS..=300))]
    update_fields: Option<u16>,
}

fn payload_bytes(word: &str) -> Result<u16, String> {
    let longest = PUBLISHED_PAYLOAD + FIELD_HEAD_BYTES + FIELD_BYTES_MAX;
    let legal = |bytes: &u16| {
        [SHORT_PAYLOAD, PUBLISHED_PAYLOAD].contains(bytes)
            || (PUBLISHED_PAYLOAD + FIELD_HEAD_BYTES..=longest).contains(bytes)
    };
    let least = PUBLISHED_PAYLOAD + FIELD_HEAD_BYTES;
    word.parse()
        .ok()
        .filter(legal)
        .ok_or_else(|| format!("{SHORT_PAYLOAD}, {PUBLISHED_PAYLOAD}, or {least} to {longest} bytes"))
}

impl Default for Profile {
    /// The published one.
    fn default() -> Profile {
        Profile { payload: PUBLISHED_PAYLOAD, image_fields: None, update_fields: None }
    }
}

/// Two fields of each image and update.
const STAMPS: i64 = 2;

impl Profile {
    /// The one whose messages have 74 bytes with their header.
    pub(crate) fn short() -> Profile {
        Profile { payload: SHORT_PAYLOAD, ..Profile::default() }
    }

    /// Whether its updates are those of the published reports.
    pub(crate) fn is_published(self) -> bool {
        self.image_fields.is_none() && self.payload == PUBLISHED_PAYLOAD
    }

    /// Whether its updates say when they were sent, beside when they were meant to be.
    pub(crate) fn has_sent(self) -> bool {
        self.image_fields.is_none() && self.payload >= PUBLISHED_PAYLOAD
    }

    /// As the arguments of a role.
    pub(crate) fn args(self) -> Vec<String> {
        let of = |name: &str, count: Option<u16>| {
            count.map_or_else(Vec::new, |count| vec![name.to_owned(), count.to_string()])
        };
        if self.image_fields.is_none() {
            return of("--payload", Some(self.payload));
        }
        [of("--image-fields", self.image_fields), of("--update-fields", self.update_fields)].concat()
    }

    /// That an update has no more fields than the image.
    pub(crate) fn check(self) -> Result<(), BenchError> {
        match (self.image_fields, self.update_fields) {
            (Some(image), Some(update)) if update > image => Err(BenchError::new(format!(
                "--update-fields: 2 to {image}, as many as the image has (--image-fields), not {update}"
            ))),
            _ => Ok(()),
        }
    }

    /// What is beside the stamps.
    fn template(self) -> Option<Template> {
        let image = self.image_fields?;
        let beside = |count: u16| count.saturating_sub(STAMPS as u16);
        let update = self.update_fields.unwrap_or(image);
        Some(Template { image_fields: beside(image), update_fields: beside(update) })
    }

    /// Writes the fields of an update. `n` makes its values.
    #[inline]
    pub(crate) fn write(self, w: &mut Writer<'_>, n: u64, intended: Nanos, ends_run: u8) {
        w.field_list(|f| {
            f.encoded(TIM_TRK_1, &intended.0.to_be_bytes());
            f.encoded(TIM_TRK_2, &[ends_run]);
            match self.template() {
                Some(template) => template.put_update(f, n),
                None => self.put_quote(f, n),
            }
        });
    }

    /// Writes the fields of an image.
    pub(crate) fn write_image(self, w: &mut Writer<'_>) {
        w.field_list(|f| {
            f.encoded(TIM_TRK_1, &Nanos::ZERO.0.to_be_bytes());
            f.encoded(TIM_TRK_2, &[0]);
            match self.template() {
                Some(template) => template.put_image(f),
                None => self.put_quote(f, 0),
            }
        });
    }

    /// What a payload of a given length has behind the first two stamps.
    #[inline]
    fn put_quote(self, f: &mut FieldListWriter<'_, '_, '_>, n: u64) {
        if self.has_sent() {
            f.encoded(TIM_TRK_3, &[0; 8]);
        }
        put_quote(f, price(n));
        if let Some(filler) = self.payload.checked_sub(PUBLISHED_PAYLOAD + FIELD_HEAD_BYTES) {
            f.encoded(FILLER, &[b'T'; FIELD_BYTES_MAX as usize][..usize::from(filler)]);
        }
    }

    /// The types of its fields.
    pub(crate) fn dictionary(self) -> Result<Dictionary, BenchError> {
        let Some(template) = self.template() else { return crate::dictionary::dictionary() };
        let mut dictionary = Dictionary::new();
        let stamps = [(TIM_TRK_1, DataType::UINT), (TIM_TRK_2, DataType::UINT)];
        for (id, data_type) in stamps.into_iter().chain(template.types()) {
            let name = format!("F{id}").into_boxed_str();
            let field = Field {
                id,
                dde_acronym: name.clone(),
                name,
                ripples_to: None,
                field_type: FieldType::NONE,
                length: 0,
                enum_length: 0,
                data_type,
                rwf_length: 0,
            };
            dictionary.add_field(field).map_err(|error| BenchError::new(error.to_string()))?;
        }
        Ok(dictionary)
    }

    /// Bytes of an update message without its key.
    pub(crate) fn update_bytes(self) -> usize {
        HEADER_BYTES + self.payload_bytes()
    }

    /// Bytes of the payload of an update.
    pub(crate) fn payload_bytes(self) -> usize {
        rwf::encode_to_vec(|w| self.write(w, 9_999, Nanos(1 << 50), 0)).map_or(0, |bytes| bytes.len())
    }

    /// In words, for the note below a table.
    pub(crate) fn describe(self) -> String {
        let bytes = format!("{} bytes of payload behind a header of {HEADER_BYTES}", self.payload_bytes());
        match self.template() {
            None => format!("images and updates of {bytes}"),
            Some(of) => format!(
                "images of {} fields, updates of {} fields, {bytes}",
                of.image_fields + STAMPS as u16,
                of.update_fields + STAMPS as u16,
            ),
        }
    }
}

/// Updates of a profile, made beforehand but for their stamps: a workload that made each would measure that as well.
#[derive(Debug)]
pub(crate) struct PreparedUpdates {
    made: Vec<Vec<u8>>,
    has_sent: bool,
}

/// So many different updates are prepared.
const PREPARED: u64 = 64;
/// Where the contents of the stamps stand in a payload: behind flags and count, each behind its id and length.
const STAMP_1: std::ops::Range<usize> = 6..14;
const STAMP_2: usize = STAMP_1.end + 3;
/// The third, if there is one.
const STAMP_3: std::ops::Range<usize> = STAMP_2 + 4..STAMP_2 + 12;

impl PreparedUpdates {
    /// Updates of a profile.
    pub(crate) fn new(profile: Profile) -> Result<PreparedUpdates, BenchError> {
        let made = (0..PREPARED).map(|n| rwf::encode_to_vec(|w| profile.write(w, n, Nanos::ZERO, 0)));
        let made = made.collect::<Result<_, _>>();
        let made = made.map_err(|error| BenchError::new(format!("an update cannot be made: {error}")))?;
        Ok(PreparedUpdates { made, has_sent: profile.has_sent() })
    }

    /// Writes one of them; `n` chooses it. If it has room for it, it says that it was sent when `sent` says.
    #[inline]
    pub(crate) fn write(
        &self,
        w: &mut Writer<'_>,
        n: u64,
        (intended, ends_run): (Nanos, u8),
        sent: impl FnOnce() -> Nanos,
    ) {
        let made = &self.made[(n % PREPARED) as usize];
        w.bytes(&made[..STAMP_1.start]);
        w.bytes(&intended.0.to_be_bytes());
        w.bytes(&made[STAMP_1.end..STAMP_2]);
        w.bytes(&[ends_run]);
        if self.has_sent {
            w.bytes(&made[STAMP_2 + 1..STAMP_3.start]);
            w.bytes(&sent().0.to_be_bytes());
            w.bytes(&made[STAMP_3.end..]);
        } else {
            w.bytes(&made[STAMP_2 + 1..]);
        }
    }
}

/// What a numbered update says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// When it was meant to be sent.
    pub(crate) intended: Nanos,
    /// Number of the run that ends with it; 0 if none does.
    pub(crate) ends_run: u8,
    /// Its number among the updates of its item.
    pub(crate) number: u64,
}

impl Stamps {
    /// Of a payload.
    #[inline]
    pub(crate) fn of(payload: &[u8]) -> Option<Stamps> {
        let mut entries = FieldList::parse(payload).ok()?.entries();
        let mut next = |id: i16| Some(entries.next()?.ok().filter(|entry| entry.id == id)?.content);
        let intended = u64::from_be_bytes(next(TIM_TRK_1)?.try_into().ok()?);
        let ends_run = *next(TIM_TRK_2)?.first()?;
        let number = u64::from_be_bytes(next(TIM_TRK_3)?.try_into().ok()?);
        Some(Stamps { intended: Nanos(intended), ends_run, number })
    }
}

/// Bytes of the payload of a numbered update: 11 fields.
pub(crate) const NUMBERED_PAYLOAD_BYTES: usize = 74;

/// Writes the payload of a numbered update. `n` makes its prices.
pub(crate) fn write_numbered(w: &mut Writer<'_>, n: u64, stamps: Stamps) {
    w.field_list(|f| {
        f.encoded(TIM_TRK_1, &stamps.intended.0.to_be_bytes());
        f.encoded(TIM_TRK_2, &[stamps.ends_run]);
        f.encoded(TIM_TRK_3, &stamps.number.to_be_bytes());
        put_quote(f, price(n));
    });
}

/// Messages of numbered updates, made beforehand but for what is different in each.
#[derive(Debug)]
pub(crate) struct NumberedUpdates(Vec<Vec<u8>>);

/// Where the stream id stands in a message: behind the header's length, class and domain.
const STREAM_ID: std::ops::Range<usize> = 4..8;
/// Bytes of the header of an update without key.
const HEADER_BYTES: usize = 11;

impl NumberedUpdates {
    /// All that there are.
    pub(crate) fn new() -> Result<NumberedUpdates, BenchError> {
        let stamps = Stamps { intended: Nanos::ZERO, ends_run: 0, number: 0 };
        let made = (0..PREPARED).map(|n| {
            rwf::encode_to_vec(|w| {
                let header = rwf::UpdateMsg::new(Domain::MARKET_PRICE, 0, DataType::FIELD_LIST);
                rwf::UpdateMsg { update_type: rwf::UpdateType::QUOTE, ..header }.encode_header(w);
                write_numbered(w, n, stamps);
            })
        });
        let made = made.collect::<Result<_, _>>();
        made.map(NumberedUpdates)
            .map_err(|error| BenchError::new(format!("an update cannot be made: {error}")))
    }

    /// A message without its stream and stamps; `n` chooses it.
    #[inline]
    pub(crate) fn message(&self, n: u64) -> &[u8] {
        &self.0[(n % PREPARED) as usize]
    }

    /// Puts stream and stamps into a copy of a message.
    #[inline]
    pub(crate) fn stamp(copy: &mut [u8], stream_id: i32, stamps: Stamps) {
        copy[STREAM_ID].copy_from_slice(&stream_id.to_be_bytes());
        let payload = &mut copy[HEADER_BYTES..];
        payload[STAMP_1].copy_from_slice(&stamps.intended.0.to_be_bytes());
        payload[STAMP_2] = stamps.ends_run;
        payload[STAMP_3].copy_from_slice(&stamps.number.to_be_bytes());
    }
}

/// When an update was meant to be sent, and the run that ends with it, if one does.
#[inline]
pub(crate) fn stamps(payload: &[u8]) -> Option<(Nanos, u8)> {
    let mut entries = FieldList::parse(payload).ok()?.entries();
    let first = entries.next()?.ok()?;
    let second = entries.next()?.ok()?;
    let nanos = u64::from_be_bytes(first.content.try_into().ok().filter(|_| first.id == TIM_TRK_1)?);
    Some((Nanos(nanos), *second.content.first().filter(|_| second.id == TIM_TRK_2)?))
}

/// When an update was sent, if it says so.
#[inline]
pub(crate) fn sent(payload: &[u8]) -> Option<Nanos> {
    let head = payload.get(STAMP_2 + 1..STAMP_3.start)?;
    let is_there = head == [TIM_TRK_3.to_be_bytes()[0], TIM_TRK_3.to_be_bytes()[1], 8];
    let nanos = payload.get(STAMP_3)?.try_into().ok().map(u64::from_be_bytes)?;
    Some(Nanos(nanos)).filter(|_| is_there && nanos != 0)
}

/// Reads every field of a payload by its type, as an application that needs all of them does. What comes back depends on
/// each value; none if the payload is not what the dictionary says.
#[inline]
pub(crate) fn read_all(payload: &[u8], dictionary: &Dictionary) -> Option<u64> {
    let mut sum = 0_u64;
    for entry in FieldList::parse(payload).ok()?.entries() {
        let value = entry.and_then(|entry| entry.value(dictionary)).ok()?;
        sum = sum.wrapping_mul(31).wrapping_add(match value {
            Value::UInt(number) => number,
            Value::Real(Real::Finite { mantissa, hint }) => {
                mantissa.cast_unsigned() ^ u64::from(hint.number())
            }
            Value::Enum(number) => number.0.into(),
            Value::Time(time) => u64::from(time.hour) + u64::from(time.second),
            Value::Rmtes(text) => text.0.iter().map(|byte| u64::from(*byte)).sum(),
            Value::Unknown(_) => return None,
            _ => 1,
        });
    }
    Some(std::hint::black_box(sum))
}

/// The whole message as a server sends it.
pub(crate) fn message(stream_id: i32, n: u64) -> Vec<u8> {
    message_of_run(stream_id, n, 0)
}

fn message_of_run(stream_id: i32, n: u64, ends_run: u8) -> Vec<u8> {
    let header = rwf::UpdateMsg::new(Domain::MARKET_PRICE, stream_id, DataType::FIELD_LIST);
    rwf::encode_to_vec(|w| {
        rwf::UpdateMsg { update_type: rwf::UpdateType::QUOTE, ..header }.encode_header(w);
        write(w, n, Nanos(1 << 50), ends_run);
    })
    .expect("a message of this size can be encoded")
}

/// Whether a message is an update. Shape of every message: header length `u16`, then the class in the low
/// five bits.
#[inline]
pub(crate) fn is_update(message: &[u8]) -> bool {
    message.get(2).is_some_and(|byte| byte & 0x1F == MsgClass::Update as u8)
}

/// Where the content of `TIM_TRK_2` stands in the payload: behind flags, count and the first field.
const ENDS_RUN_AT: usize = 3 + 11 + 3;

/// Whether an update ends a run, told without decoding it.
#[inline]
pub(crate) fn ends_run(message: &[u8]) -> bool {
    let header = message.first_chunk().map_or(0, |length| u16::from_be_bytes(*length));
    message.get(2 + usize::from(header) + ENDS_RUN_AT).is_some_and(|byte| *byte != 0)
}

/// The payload of a message that is an update.
#[inline]
pub(crate) fn payload(message: &[u8]) -> Option<&[u8]> {
    match Msg::parse(message).ok()? {
        Msg::Update(update) => Some(update.payload),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prepared_update_is_what_its_profile_writes() {
        for (image_fields, update_fields) in [(None, None), (Some(2), None), (Some(86), Some(23))] {
            let profile = Profile { image_fields, update_fields, ..Profile::short() };
            let prepared = PreparedUpdates::new(profile).expect("it fits");
            for (n, intended, ends_run) in
                [(0, Nanos(1), 0), (63, Nanos(u64::MAX), 9), (5, Nanos(1 << 50), 255)]
            {
                let stamps_of = (intended, ends_run);
                let made = rwf::encode_to_vec(|w| prepared.write(w, n, stamps_of, || Nanos(77)));
                let made = made.expect("it fits");
                let direct =
                    rwf::encode_to_vec(|w| profile.write(w, n, intended, ends_run)).expect("it fits");
                assert_eq!(made, direct);
                assert_eq!(stamps(&made), Some((intended, ends_run)));
            }
        }
    }

    #[test]
    fn a_payload_has_the_bytes_that_were_asked_for_and_says_when_it_was_sent() {
        let dictionary = crate::dictionary::dictionary().expect("part of the project");
        for (word, fields) in [("63", 10), ("74", 11), ("77", 12), ("200", 12), ("330", 12)] {
            let profile = Profile { payload: payload_bytes(word).expect("legal"), ..Profile::default() };
            let prepared = PreparedUpdates::new(profile).expect("it fits");
            let made = rwf::encode_to_vec(|w| prepared.write(w, 5, (Nanos(9), 3), || Nanos(1 << 40)));
            let made = made.expect("it fits");
            assert_eq!((made.len(), made.len().to_string().as_str()), (profile.payload_bytes(), word));
            let list = FieldList::parse(&made).expect("a field list");
            assert_eq!(list.entries().filter(|entry| entry.is_ok()).count(), fields);
            assert_eq!(stamps(&made), Some((Nanos(9), 3)));
            assert_eq!(sent(&made), profile.has_sent().then_some(Nanos(1 << 40)));
            assert!(read_all(&made, &dictionary).is_some());
        }
        for word in ["0", "62", "64", "73", "75", "76", "331", "70000", "-1", "x"] {
            let refused = payload_bytes(word).expect_err(word);
            assert_eq!(refused, "63, 74, or 77 to 330 bytes");
        }
        assert_eq!(Profile::default().payload_bytes(), NUMBERED_PAYLOAD_BYTES);
    }

    #[test]
    fn every_field_of_any_profile_has_a_type_by_which_it_is_read() {
        for fields in [2, 10, 86, 300] {
            let profile = Profile { image_fields: Some(fields), ..Profile::default() };
            let dictionary = profile.dictionary().expect("no field twice");
            let read = |n| {
                let made = rwf::encode_to_vec(|w| profile.write(w, n, Nanos(n), 0)).expect("it fits");
                read_all(&made, &dictionary).expect("all are known")
            };
            assert_ne!(read(1), read(2));
        }
        let unknown = rwf::encode_to_vec(|w| Profile::default().write(w, 1, Nanos(1), 0)).expect("it fits");
        assert_eq!(read_all(&unknown, &Dictionary::new()), None);
    }

    #[test]
    fn a_numbered_update_has_74_bytes_of_payload_and_says_what_it_is() {
        let updates = NumberedUpdates::new().expect("they fit");
        for (n, stream_id, ends_run, number) in
            [(0, 5, 0, 1), (63, i32::MAX, 9, u64::MAX), (64, -1, 255, 1 << 40)]
        {
            let stamps = Stamps { intended: Nanos(n + 7), ends_run, number };
            let mut copy = updates.message(n).to_vec();
            NumberedUpdates::stamp(&mut copy, stream_id, stamps);
            let Ok(Msg::Update(update)) = Msg::parse(&copy) else { panic!("an update") };
            assert_eq!((update.stream_id, update.payload.len()), (stream_id, NUMBERED_PAYLOAD_BYTES));
            assert_eq!(copy.len(), HEADER_BYTES + NUMBERED_PAYLOAD_BYTES);
            let written = rwf::encode_to_vec(|w| write_numbered(w, n % PREPARED, stamps)).expect("it fits");
            assert_eq!((update.payload, Stamps::of(update.payload)), (&*written, Some(stamps)));
        }
        // An update that has no number is none of these.
        assert_eq!(Stamps::of(payload(&message(5, 7)).expect("an update")), None);
    }

    #[test]
    fn updates_of_any_profile_have_their_stamps_first_and_no_field_twice() {
        let profile =
            |image, update| Profile { image_fields: image, update_fields: update, ..Profile::short() };
        for (profile, image_fields, update_fields) in [
            (profile(None, None), 10, 10),
            (profile(Some(2), None), 2, 2),
            (profile(Some(86), Some(23)), 86, 23),
            (profile(Some(300), None), 300, 300),
        ] {
            let encoded =
                |write: &dyn Fn(&mut Writer<'_>)| rwf::encode_to_vec(|w| write(w)).expect("it fits");
            let ids = |payload: &[u8]| {
                let list = FieldList::parse(payload).expect("a field list");
                list.entries().map(|entry| entry.expect("well formed").id).collect::<Vec<_>>()
            };
            let image = encoded(&|w| profile.write_image(w));
            let update = encoded(&|w| profile.write(w, 3, Nanos(1 << 50), 7));
            assert_eq!((ids(&image).len(), ids(&update).len()), (image_fields, update_fields), "{profile:?}");
            let of_image: std::collections::BTreeSet<i16> = ids(&image).into_iter().collect();
            assert_eq!(of_image.len(), image_fields, "each once");
            assert!(ids(&update).iter().all(|id| of_image.contains(id)));
            assert_eq!(stamps(&update), Some((Nanos(1 << 50), 7)));
        }
        assert_eq!(Profile::short().update_bytes(), UPDATE_BYTES);
        let refused = profile(Some(10), Some(11)).check().expect_err("more than the image has").to_string();
        assert_eq!(refused, "--update-fields: 2 to 10, as many as the image has (--image-fields), not 11");
    }

    #[test]
    fn an_update_has_its_size_and_its_stamps() {
        let bytes = message(5, 7);
        assert_eq!(bytes.len(), UPDATE_BYTES);
        assert_eq!(stamps(payload(&bytes).expect("an update")), Some((Nanos(1 << 50), 0)));
        assert!(is_update(&bytes) && !ends_run(&bytes));
        let last = message_of_run(5, 7, 9);
        assert!(ends_run(&last) && stamps(payload(&last).expect("an update")) == Some((Nanos(1 << 50), 9)));
    }
}
