//! The update that workloads send: 74 bytes of RWF with the time it was meant to be sent.

use clap::Args;
use client::ItemEvent;
use rwf::{DataType, Domain, Enum, FieldList, FieldListWriter, Msg, MsgClass, Real, Writer};
use units::Nanos;

use crate::BenchError;
use crate::template::Template;

/// Bytes of an update message without its key: header and 10 fields.
pub(crate) const UPDATE_BYTES: usize = 74;

/// Nanoseconds on the monotonic clock at which the update was meant to be sent.
const TIM_TRK_1: i16 = 3902;
/// Number of the run that ends with this update; 0 in all others.
const TIM_TRK_2: i16 = 3903;
/// Number of a numbered update among those of its item, from 1; as an image has it, that of the last one in it.
const TIM_TRK_3: i16 = 3904;

/// Writes the fields of an update. `n` makes its prices.
#[inline]
pub(crate) fn write(w: &mut Writer<'_>, n: u64, intended: Nanos, ends_run: u8) {
    let price = 20_000 + (n % 10_000) as i64;
    w.field_list(|f| {
        f.encoded(TIM_TRK_1, &intended.0.to_be_bytes());
        f.encoded(TIM_TRK_2, &[ends_run]);
        put_quote(f, price);
    });
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
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Profile {
    /// Fields of an image, with the types of a vendor's record of a stock. Without it images and updates have the 10
    /// fields of an update of 74 bytes.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(STAMPS..=300))]
    image_fields: Option<u16>,
    /// Fields of an update, spread over those of the image; all if it is not given. Two of them are the stamps that the
    /// workload reads.
    #[arg(long, value_name = "COUNT", requires = "image_fields", value_parser = clap::value_parser!(u16).range(STAMPS..=300))]
    update_fields: Option<u16>,
}

/// Two fields of each image and update.
const STAMPS: i64 = 2;

impl Profile {
    /// As the arguments of a role.
    pub(crate) fn args(self) -> Vec<String> {
        let of = |name: &str, count: Option<u16>| {
            count.map_or_else(Vec::new, |count| vec![name.to_owned(), count.to_string()])
        };
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
        let Some(template) = self.template() else { return write(w, n, intended, ends_run) };
        w.field_list(|f| {
            f.encoded(TIM_TRK_1, &intended.0.to_be_bytes());
            f.encoded(TIM_TRK_2, &[ends_run]);
            template.put_update(f, n);
        });
    }

    /// Writes the fields of an image.
    pub(crate) fn write_image(self, w: &mut Writer<'_>) {
        let Some(template) = self.template() else { return write(w, 0, Nanos::ZERO, 0) };
        w.field_list(|f| {
            f.encoded(TIM_TRK_1, &Nanos::ZERO.0.to_be_bytes());
            f.encoded(TIM_TRK_2, &[0]);
            template.put_image(f);
        });
    }

    /// Bytes of an update message without its key.
    pub(crate) fn update_bytes(self) -> usize {
        rwf::encode_to_vec(|w| {
            rwf::UpdateMsg::new(Domain::MARKET_PRICE, 5, DataType::FIELD_LIST).encode_header(w);
            self.write(w, 9_999, Nanos(1 << 50), 0);
        })
        .map_or(UPDATE_BYTES, |bytes| bytes.len())
    }

    /// In words, for the note below a table.
    pub(crate) fn describe(self) -> String {
        match self.template() {
            None => "images and updates of 10 fields".to_owned(),
            Some(of) => format!(
                "images of {} fields, updates of {} fields and {} bytes",
                of.image_fields + STAMPS as u16,
                of.update_fields + STAMPS as u16,
                self.update_bytes()
            ),
        }
    }
}

/// Updates of a profile, made beforehand but for their stamps: a workload that made each would measure that as well.
#[derive(Debug)]
pub(crate) struct PreparedUpdates(Vec<Vec<u8>>);

/// So many different updates are prepared.
const PREPARED: u64 = 64;
/// Where the contents of the stamps stand in a payload: behind flags and count, each behind its id and length.
const STAMP_1: std::ops::Range<usize> = 6..14;
const STAMP_2: usize = STAMP_1.end + 3;

impl PreparedUpdates {
    /// Updates of a profile.
    pub(crate) fn new(profile: Profile) -> Result<PreparedUpdates, BenchError> {
        let made = (0..PREPARED).map(|n| rwf::encode_to_vec(|w| profile.write(w, n, Nanos::ZERO, 0)));
        let made = made.collect::<Result<_, _>>();
        made.map(PreparedUpdates)
            .map_err(|error| BenchError::new(format!("an update cannot be made: {error}")))
    }

    /// Writes one of them; `n` chooses it.
    #[inline]
    pub(crate) fn write(&self, w: &mut Writer<'_>, n: u64, intended: Nanos, ends_run: u8) {
        let made = &self.0[(n % PREPARED) as usize];
        w.bytes(&made[..STAMP_1.start]);
        w.bytes(&intended.0.to_be_bytes());
        w.bytes(&made[STAMP_1.end..STAMP_2]);
        w.bytes(&[ends_run]);
        w.bytes(&made[STAMP_2 + 1..]);
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
        put_quote(f, 20_000 + (n % 10_000) as i64);
    });
}

/// Messages of numbered updates, made beforehand but for what is different in each.
#[derive(Debug)]
pub(crate) struct NumberedUpdates(Vec<Vec<u8>>);

/// Where the stream id stands in a message: behind the header's length, class and domain.
const STREAM_ID: std::ops::Range<usize> = 4..8;
/// Bytes of the header of an update without key.
const HEADER_BYTES: usize = 11;
/// Where the content of `TIM_TRK_3` stands in a payload.
const STAMP_3: std::ops::Range<usize> = STAMP_2 + 4..STAMP_2 + 12;

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

/// The same of an event of the client.
#[inline]
pub(crate) fn event_stamps(event: &ItemEvent<'_>) -> Option<(Nanos, u8)> {
    stamps(event.payload().1)
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
            let profile = Profile { image_fields, update_fields };
            let prepared = PreparedUpdates::new(profile).expect("it fits");
            for (n, intended, ends_run) in
                [(0, Nanos(1), 0), (63, Nanos(u64::MAX), 9), (5, Nanos(1 << 50), 255)]
            {
                let made = rwf::encode_to_vec(|w| prepared.write(w, n, intended, ends_run)).expect("it fits");
                let direct =
                    rwf::encode_to_vec(|w| profile.write(w, n, intended, ends_run)).expect("it fits");
                assert_eq!(made, direct);
                assert_eq!(stamps(&made), Some((intended, ends_run)));
            }
        }
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
        let profile = |image, update| Profile { image_fields: image, update_fields: update };
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
        assert_eq!(Profile::default().update_bytes(), UPDATE_BYTES);
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
