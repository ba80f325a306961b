//! libFuzzer's way into every target: `FUZZ_TARGET` names the one that is meant, `tickcast-fuzz list` lists them.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tickcast_fuzz::{Target, find};

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    find(&name).unwrap_or_else(|| panic!("no target {name}"))
});

fuzz_target!(|input: &[u8]| {
    let _ = TARGET.execute(input);
});
