//! Words as the bytes they consist of in memory.

/// The bytes of `words`.
#[inline]
pub(super) fn of(words: &[u64]) -> &[u8] {
    // SAFETY: every byte of a word is initialised, and bytes have no alignment.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}
