//! Pages and files of the repository that must agree with what the program says of itself.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Runs the program with nothing of the caller's environment that could change its configuration.
fn tickcast(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tickcast"))
        .args(words)
        .env_clear()
        .output()
        .expect("the program was built")
}

#[test]
fn the_configuration_page_is_what_the_reference_command_prints() {
    let printed = tickcast(&["config", "reference"]);
    assert!(printed.status.success(), "{printed:?}");
    let printed = String::from_utf8(printed.stdout).expect("Markdown is text");
    let page = std::fs::read_to_string(in_repository("docs/configuration.md")).expect("the page exists");
    let changed = printed.lines().zip(page.lines()).position(|(now, then)| now != then);
    let line = changed.unwrap_or_else(|| printed.lines().count().min(page.lines().count())) + 1;
    assert!(
        printed == page,
        "docs/configuration.md is not up to date from line {line} on; make it anew with\n  \
         cargo run --release --bin tickcast -- config reference > docs/configuration.md"
    );
}

#[test]
fn every_example_is_a_valid_configuration() {
    let mut count = 0;
    for entry in std::fs::read_dir(in_repository("examples")).expect("the folder exists") {
        let path = entry.expect("it can be read").path();
        if path.extension().is_some_and(|e| e == "toml") {
            let checked = tickcast(&["config", "check", path.to_str().expect("a plain name")]);
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
            count += 1;
        }
    }
    assert!(count >= 9, "{count} examples");
}

#[test]
fn what_the_feed_decides_itself_cannot_be_set() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("feed-service.toml");
    std::fs::write(&file, "[[feed.provider.service]]\nname = \"X\"\n").expect("the folder is writable");
    let checked = tickcast(&["config", "check", file.to_str().expect("a plain name")]);
    assert_eq!(checked.status.code(), Some(2), "{checked:?}");
    let text = String::from_utf8_lossy(&checked.stderr);
    assert!(text.contains("unknown table `service` in [feed.provider]"), "{text}");
}
