//! What signals and children of the host do to contexts, in programs in C.

#[path = "../../../crates/messaging/messaging/tests/common/examples.rs"]
mod processes;

mod common;

use common::{DIRECTORY, compile};
use processes::{end, limited, settings};

/// What a program of these tests prints.
fn run(name: &str, words: &[&str], test: u8, more: &[String]) -> String {
    let mut command = limited();
    // Cargo's would come before the place that the program was linked for.
    command.arg(compile("tests/programs", name)).env_remove("LD_LIBRARY_PATH");
    command.args(words).args(settings([99, 100], test)).arg("interface=127.0.0.1").args(more);
    end(command.spawn().expect("the program is there"))
}

#[test]
fn a_publisher_over_tls_outlives_receivers_that_close() {
    let file = |key: &str, name: &str| {
        format!("tcp.tls_{key}_file={DIRECTORY}/../../crates/io/net/testdata/tls/{name}")
    };
    let tls = [file("certificate", "server.pem"), file("key", "server.key"), file("ca", "ca.pem")];
    assert_eq!(run("sigpipe", &[], 1, &tls), "survived\n");
}

#[test]
fn children_of_a_host_do_nothing_to_its_contexts_and_have_their_own() {
    for (test, transport) in ["lbtrm", "lbtru", "tcp", "lbtipc"].into_iter().enumerate() {
        assert_eq!(
            run("fork", &[transport], 2 + test as u8, &[]),
            "parent and children are well\n",
            "{transport}"
        );
    }
}
