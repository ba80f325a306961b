//! The header says what the library does: names, numbers, layouts.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem::{align_of, offset_of, size_of};
use std::path::Path;
use std::process::Command;

use tickcast::callbacks::{AskedValue, EndValue, Handlers, LeftValue, MessageValue};
use tickcast::constants::{ARRIVAL_ORDER, HOT_FAILOVER, ends, message, security_events, send, source_events};
use tickcast::error::ErrorCode;
use tickcast::recorder::{RecordedValue, clocks};
use tickcast::statistics::StatisticValue;

const HEADER: &str = include_str!("../include/tickcast.h");
const SOURCES: [&str; 8] = [
    include_str!("../src/context.rs"),
    include_str!("../src/error.rs"),
    include_str!("../src/receiver.rs"),
    include_str!("../src/recorder.rs"),
    include_str!("../src/request.rs"),
    include_str!("../src/source.rs"),
    include_str!("../src/statistics.rs"),
    include_str!("../src/thread.rs"),
];

/// Words before `(` that begin with the library's name.
fn functions(text: &str, before: &str) -> BTreeSet<String> {
    text.match_indices(before)
        .filter_map(|(at, _)| {
            let name = text[at + before.len()..].split('(').next()?;
            let is_name =
                name.starts_with("tickcast_") && name.chars().all(|c| c.is_alphanumeric() || c == '_');
            is_name.then(|| name.to_owned())
        })
        .collect()
}

#[test]
fn the_header_declares_what_the_library_exports_and_nothing_else() {
    let declarations: String = HEADER
        .lines()
        .filter(|line| !line.starts_with(' ') && line.contains('('))
        .collect::<Vec<_>>()
        .join("\n");
    let mut declared = functions(&declarations, " ");
    declared.extend(functions(&declarations, "*"));
    let exported: BTreeSet<String> =
        SOURCES.iter().flat_map(|source| functions(source, "extern \"C\" fn ")).collect();
    assert!(exported.len() > 20, "{exported:?}");
    assert_eq!(declared, exported);
}

/// C statements that hold if the header and this library are of one mind.
fn assertions() -> String {
    let mut text = "#include \"tickcast.h\"\n".to_owned();
    let mut same = |c: &str, rust: i64| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "_Static_assert((long long)({c}) == {rust}LL, \"{c}\");");
    };
    for (name, code) in [
        ("ARGUMENT", ErrorCode::Argument),
        ("CONFIG", ErrorCode::Config),
        ("IO", ErrorCode::Io),
        ("WOULD_BLOCK", ErrorCode::WouldBlock),
        ("TOO_LONG", ErrorCode::TooLong),
        ("ENDED", ErrorCode::Ended),
        ("BUSY", ErrorCode::Busy),
        ("BUG", ErrorCode::Bug),
        ("LIMIT", ErrorCode::Limit),
        ("FORKED", ErrorCode::Forked),
    ] {
        same(&format!("TICKCAST_ERROR_{name}"), code as i64);
    }
    for (name, flag) in [
        ("FLUSH", send::FLUSH),
        ("BATCH_START", send::BATCH_START),
        ("BATCH_END", send::BATCH_END),
        ("RECOVERED", message::RECOVERED),
        ("LATE_JOIN", message::LATE_JOIN),
        ("OFF_TRANSPORT", message::OFF_TRANSPORT),
        ("IS_REQUEST", message::IS_REQUEST),
        ("IS_BATCH_START", message::IS_BATCH_START),
        ("IS_BATCH_END", message::IS_BATCH_END),
        ("HAS_NUMBER", message::HAS_NUMBER),
        ("ARRIVAL_ORDER", ARRIVAL_ORDER),
        ("HOT_FAILOVER", HOT_FAILOVER),
        ("CLOCK_DEFAULT", clocks::DEFAULT),
        ("CLOCK_TSC", clocks::TSC),
        ("CLOCK_MONOTONIC", clocks::MONOTONIC),
        ("CLOCK_MONOTONIC_RAW", clocks::MONOTONIC_RAW),
    ] {
        same(&format!("TICKCAST_{name}"), flag.into());
    }
    for (name, number) in [
        ("SOURCE_RECEIVER_CONNECTED", source_events::RECEIVER_CONNECTED),
        ("SOURCE_RECEIVER_DISCONNECTED", source_events::RECEIVER_DISCONNECTED),
        ("SOURCE_WAKE_UP", source_events::WAKE_UP),
        ("SOURCE_RECEIVER_TOO_SLOW", source_events::RECEIVER_TOO_SLOW),
        ("SECURITY_RELOADED", security_events::RELOADED),
        ("SECURITY_RELOAD_FAILED", security_events::RELOAD_FAILED),
        ("SECURITY_CERTIFICATE_REFUSED", security_events::CERTIFICATE_REFUSED),
        ("SECURITY_UNREADABLE", security_events::UNREADABLE),
        ("SECURITY_EXPOSED", security_events::EXPOSED),
        ("END_ENDED", ends::ENDED),
        ("END_TIMED_OUT", ends::TIMED_OUT),
        ("END_CLOSED", ends::CLOSED),
        ("END_BROKEN", ends::BROKEN),
        ("END_RESET", ends::RESET),
        ("END_RESTARTED", ends::RESTARTED),
    ] {
        same(&format!("TICKCAST_{name}"), number.into());
    }
    macro_rules! same_layout {
        ($rust:ident, $c:literal, $($field:ident)*) => {
            same(concat!("sizeof(", $c, ")"), size_of::<$rust>() as i64);
            same(concat!("_Alignof(", $c, ")"), align_of::<$rust>() as i64);
            $(same(
                concat!("offsetof(", $c, ", ", stringify!($field), ")"),
                offset_of!($rust, $field) as i64,
            );)*
        };
    }
    same_layout!(AskedValue, "tickcast_asked", index address port);
    same_layout!(
        MessageValue, "tickcast_message", receiver stream sqn first_sqn flags data length asked
        number
    );
    same_layout!(
        RecordedValue, "tickcast_recorded", records lost capacity cost_ns clock is_locked
    );
    same_layout!(EndValue, "tickcast_end", reason has_next next is_tail_unknown);
    same_layout!(LeftValue, "tickcast_left", messages bytes sessions receivers);
    same_layout!(StatisticValue, "tickcast_statistic", kind topic transport peer count names values);
    same_layout!(
        Handlers, "tickcast_handlers", size on_message on_source on_begin on_loss on_end on_source_event
        on_response on_request_end on_failover_loss on_security on_stream_end on_receivers
    );
    text
}

#[test]
fn numbers_and_layouts_of_the_header_are_those_of_the_library() {
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("layout.c");
    std::fs::write(&source, assertions()).expect("the directory is there");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let result = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I", include])
        .arg(&source)
        .output()
        .expect("a C compiler");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
}
