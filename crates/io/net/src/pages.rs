//! Memory in huge pages.

use std::io;

use rustix::mm::{Advice, madvise};

/// Has the kernel back the whole pages within `memory` with huge ones where it can (`true`), or never (`false`). What is in
/// memory already stays as it is.
///
/// # Errors
/// The kernel has no huge pages.
pub fn prefer_huge(memory: &mut [u8], huge: bool) -> io::Result<()> {
    let page = rustix::param::page_size();
    let skipped = memory.as_ptr().align_offset(page);
    let Some(inside) = memory.get_mut(skipped..) else { return Ok(()) };
    let bytes = inside.len() / page * page;
    let advice = if huge { Advice::LinuxHugepage } else { Advice::LinuxNoHugepage };
    // SAFETY: the range lies within `memory`, which is borrowed for the call. Both kinds of advice leave the content as it
    // is; they say which pages the kernel takes for memory that is touched for the first time.
    unsafe { madvise(inside.as_mut_ptr().cast(), bytes, advice) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_changes_no_content() {
        let mut memory = vec![7; 5 << 20];
        for huge in [true, false] {
            // A kernel may have been built without.
            let _ = prefer_huge(&mut memory, huge);
            assert!(memory.iter().all(|byte| *byte == 7));
        }
        prefer_huge(&mut [], true).expect("there is nothing to be done");
        prefer_huge(&mut [1; 3], true).expect("there is no whole page");
    }
}
