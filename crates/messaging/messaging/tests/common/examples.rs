//! Examples, in whatever language, as processes that speak to each other.

use std::process::{Child, Command, Output, Stdio};

/// What keeps a test's traffic apart from others: `nets` are the third bytes of its groups, `test` the last.
pub(crate) fn settings(nets: [u8; 2], test: u8) -> Vec<String> {
    let port = 20_000 + std::process::id() % 10_000;
    vec![
        format!("resolver.multicast_address=239.255.{}.{test}", nets[0]),
        format!("resolver.multicast_port={port}"),
        format!("lbtrm.multicast_address=239.255.{}.{test}", nets[1]),
        format!("lbtrm.destination_port={port}"),
        "lbtrm.source_port_low=30000".to_owned(),
        "lbtrm.source_port_high=40000".to_owned(),
        "request_tcp_port_low=30000".to_owned(),
        "request_tcp_port_high=40000".to_owned(),
    ]
}

/// Whatever hangs is ended.
pub(crate) fn limited() -> Command {
    let mut command = Command::new("timeout");
    command.arg("120").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a process printed, when it has ended well.
pub(crate) fn end(child: Child) -> String {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("it was started");
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{status}: {text}{}", String::from_utf8_lossy(&stderr));
    text
}

/// Checks what a subscriber prints, while publishers of twenty messages come and go. Each starts when the machine
/// lets it: a subscriber may miss a publisher altogether, or hear nothing of it but its end; of the one it hears it may
/// miss the beginning.
#[allow(dead_code)]
pub(crate) fn assert_subscribed(subscribe: impl Fn() -> Child, publish: impl Fn() -> Child) {
    let mut text = String::new();
    for _ in 0..10 {
        let mut subscriber = subscribe();
        while subscriber.try_wait().expect("it was started").is_none() {
            end(publish());
        }
        text = end(subscriber);
        if !text.is_empty() {
            break;
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    assert!(!lines.is_empty(), "nothing came");
    let expected: Vec<String> = (20 - lines.len()..20).map(|i| format!("{i} message {i}")).collect();
    assert_eq!(lines, expected);
}
