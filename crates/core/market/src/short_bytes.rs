//! Bytes that are few nearly always.

use std::ops::Deref;

/// So many bytes stand in the value itself. Ids of groups have two to six, permission data seldom more.
const INLINE_MAX: usize = 14;

/// Some bytes in 16 bytes, without memory of their own unless they are more than 14.
#[derive(Clone, Debug)]
pub(crate) enum ShortBytes {
    /// The first so many.
    Inline(u8, [u8; INLINE_MAX]),
    // A thin pointer: a fat one would make all of them half as long again.
    #[allow(clippy::box_collection)]
    Long(Box<Vec<u8>>),
}

impl From<&[u8]> for ShortBytes {
    fn from(bytes: &[u8]) -> Self {
        let mut room = [0; INLINE_MAX];
        match room.get_mut(..bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                ShortBytes::Inline(bytes.len() as u8, room)
            }
            None => ShortBytes::Long(Box::new(bytes.to_vec())),
        }
    }
}

impl Deref for ShortBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            ShortBytes::Inline(len, room) => &room[..usize::from(*len)],
            ShortBytes::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_out_as_they_went_in_and_take_two_words() {
        let all: Vec<u8> = (0..40).collect();
        for len in 0..all.len() {
            assert_eq!(*ShortBytes::from(&all[..len]), all[..len]);
        }
        assert_eq!((size_of::<ShortBytes>(), size_of::<Option<ShortBytes>>()), (16, 16));
    }
}
