//! Asks the processor for memory that will be read soon, without waiting for it.
//!
//! Where many items are worked on, a cache holds few of them, and each one means some waits for memory. What is asked for
//! while another item is worked on is there in time. A request reads nothing and changes nothing, and a needless one only
//! takes time. On processors other than x86-64 it does nothing.
//!
//! ```
//! let prices = vec![0u64; 1_000];
//! tickcast_prefetch::bytes(b"some text");
//! tickcast_prefetch::value(&prices[500]);
//! assert_eq!(prices[500], 0);
//! ```

/// What is asked for at once, in bytes.
pub const LINE_BYTES: usize = 64;

/// Asks for the lines that a value stands in, not for what it points to.
#[inline(always)]
pub fn value<T>(value: &T) {
    lines(std::ptr::from_ref(value).cast(), size_of::<T>());
}

/// Asks for the lines of some bytes.
#[inline(always)]
pub fn bytes(bytes: &[u8]) {
    lines(bytes.as_ptr(), bytes.len());
}

#[inline(always)]
fn lines(first: *const u8, len: usize) {
    let mut offset = 0;
    while offset < len {
        line(first.wrapping_add(offset));
        offset += LINE_BYTES;
    }
    // The last byte may stand in one line more.
    if len > 0 {
        line(first.wrapping_add(len - 1));
    }
}

#[inline(always)]
fn line(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint, which reads nothing and may name any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    #[test]
    fn values_of_every_size_can_be_asked_for() {
        super::value(&());
        super::value(&1u8);
        super::value(&[0u64; 1_000]);
        super::bytes(&[]);
        (1..300).for_each(|len| super::bytes(&vec![0; len]));
    }
}
