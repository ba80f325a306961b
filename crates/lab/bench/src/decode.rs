//! What consumers do with an update besides looking at its stamps.

use std::ops::RangeFrom;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use client::ItemEvent;
use market::image::{FieldRules, Image};
use rwf::{DataType, Dictionary};

use crate::BenchError;
use crate::update::{self, Profile};

/// What consumers read of each update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Decode {
    /// The stamps.
    None,
    /// Every field, by its type in the dictionary.
    Fields,
    /// The same, and they keep an image of each item and merge the update into it.
    Image,
}

impl std::fmt::Display for Decode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Decode::None => "none",
            Decode::Fields => "fields",
            Decode::Image => "image",
        })
    }
}

/// The same as an option.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct DecodeArgs {
    /// What consumers do with each update before its latency is taken: they read nothing but its stamps; every field by its
    /// type; or that and merge it into an image of the item.
    #[arg(long, value_name = "WHAT", default_value_t = Decode::None)]
    pub(crate) decode: Decode,
}

impl DecodeArgs {
    /// As the arguments of a role.
    pub(crate) fn args(self) -> Vec<String> {
        vec!["--decode".to_owned(), self.decode.to_string()]
    }

    /// For the note below a table.
    pub(crate) fn describe(self) -> &'static str {
        match self.decode {
            Decode::None => "Consumers decode nothing but the stamps (--decode none).",
            Decode::Fields => {
                "Consumers decode every field by its type before they take the time (--decode fields)."
            }
            Decode::Image => {
                "Consumers decode every field by its type and merge it into an image before they take the time \
                 (--decode image)."
            }
        }
    }

    /// The dictionary of a profile, if fields are decoded.
    pub(crate) fn dictionary(self, profile: Profile) -> Result<Option<Arc<Dictionary>>, BenchError> {
        let is_on = self.decode != Decode::None;
        is_on.then(|| profile.dictionary().map(Arc::new)).transpose()
    }
}

/// A consumer's decoding, without the client library. Its items have stream ids one behind the other.
pub(crate) struct Decoder {
    dictionary: Arc<Dictionary>,
    streams: RangeFrom<i32>,
    images: Option<Images>,
    /// Messages that are not what the dictionary says.
    unreadable: u64,
}

struct Images {
    rules: FieldRules,
    of_stream: Vec<Image>,
}

impl Decoder {
    /// One with streams from an id on; none if there is nothing to decode.
    pub(crate) fn new(
        decode: Decode,
        dictionary: Option<&Arc<Dictionary>>,
        streams: RangeFrom<i32>,
    ) -> Option<Decoder> {
        let dictionary = Arc::clone(dictionary.filter(|_| decode != Decode::None)?);
        let images = (decode == Decode::Image)
            .then(|| Images { rules: FieldRules::of(&dictionary), of_stream: Vec::new() });
        Some(Decoder { dictionary, streams, images, unreadable: 0 })
    }

    /// Takes an image.
    pub(crate) fn on_image(&mut self, stream_id: i32, payload: &[u8]) {
        let at = usize::try_from(stream_id - self.streams.start).unwrap_or(usize::MAX);
        // Streams are opened in order, one at a time.
        if let Some(images) = self.images.as_mut().filter(|images| at <= images.of_stream.len() + (1 << 20)) {
            if images.of_stream.len() <= at {
                images.of_stream.resize_with(at + 1, Image::default);
            }
            let taken = images.of_stream[at].refresh(DataType::FIELD_LIST, payload, true, &images.rules);
            self.unreadable += u64::from(!taken.unwrap_or(false));
        }
    }

    /// Reads an update.
    #[inline]
    pub(crate) fn on_update(&mut self, stream_id: i32, payload: &[u8]) {
        let is_read = update::read_all(payload, &self.dictionary).is_some();
        let at = usize::try_from(stream_id - self.streams.start).unwrap_or(usize::MAX);
        let is_merged = self.images.as_mut().is_none_or(|images| {
            let merged = images
                .of_stream
                .get_mut(at)
                .map(|image| image.update(DataType::FIELD_LIST, payload, true, &images.rules));
            matches!(merged, Some(Ok(true)))
        });
        self.unreadable += u64::from(!is_read || !is_merged);
    }

    /// That everything could be read.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        check(self.unreadable)
    }
}

/// Reads an update of the client library, which has merged it already if it keeps images. Whether all of it could be read.
#[inline]
pub(crate) fn is_read(decode: Decode, event: &ItemEvent<'_>) -> bool {
    let payload = event.payload().1;
    let read = event.dictionary().and_then(|dictionary| update::read_all(payload, dictionary));
    read.is_some() && (decode != Decode::Image || event.image().is_some())
}

/// That no message was something else than the dictionary says.
pub(crate) fn check(unreadable: u64) -> Result<(), BenchError> {
    if unreadable == 0 {
        return Ok(());
    }
    Err(BenchError::new(format!("{unreadable} updates cannot be decoded by the dictionary")))
}

#[cfg(test)]
mod tests {
    use units::Nanos;

    use super::*;

    fn payload(profile: Profile, n: u64) -> Vec<u8> {
        rwf::encode_to_vec(|w| profile.write(w, n, Nanos(n), 0)).expect("it fits")
    }

    #[test]
    fn an_image_has_what_the_last_update_said() {
        let profile = Profile::default();
        let dictionary = Arc::new(profile.dictionary().expect("part of the project"));
        let mut decoder = Decoder::new(Decode::Image, Some(&dictionary), 5..).expect("it decodes");
        let image = rwf::encode_to_vec(|w| profile.write_image(w)).expect("it fits");
        decoder.on_image(6, &image);
        decoder.on_update(6, &payload(profile, 7));
        decoder.check().expect("all could be read");
        let images = decoder.images.as_ref().expect("it keeps them");
        let mut written = Vec::new();
        let whole = market::image::PartStart::First;
        written.extend(
            rwf::encode_to_vec(|w| {
                images.of_stream[1].write_part(&whole, 1 << 20, w);
            })
            .expect("it fits"),
        );
        assert_eq!(update::stamps(&written).map(|(intended, _)| intended), Some(Nanos(7)));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let profile = Profile::default();
        let dictionary = Arc::new(profile.dictionary().expect("part of the project"));
        assert!(Decoder::new(Decode::None, Some(&dictionary), 5..).is_none());
        let mut fields = Decoder::new(Decode::Fields, Some(&dictionary), 5..).expect("it decodes");
        fields.on_update(5, &payload(profile, 1));
        fields.check().expect("it could be read");
        fields.on_update(5, b"no field list");
        assert!(fields.check().is_err());
        let mut image = Decoder::new(Decode::Image, Some(&dictionary), 5..).expect("it decodes");
        image.on_update(5, &payload(profile, 1));
        assert!(image.check().is_err(), "an update without an image");
    }
}
