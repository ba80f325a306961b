//! Shared memory between users.

mod common;

use std::sync::{Mutex, PoisonError};

use common::{Patience, config, party};
use testkit::child::{become_user, fork, is_root};
use tickcast_messaging::{IpcConfig, MessagingConfig, Transport};

const GROUP: u32 = 64_000;
const STRANGER: u32 = 64_003;

/// Held by each test: the C library does not promise that a child finds the names of users and groups when another
/// thread looked one up as it was forked.
static ALONE: Mutex<()> = Mutex::new(());

/// Publishes as root with these settings, while a child of another user, a member of [`GROUP`], does `there`.
fn publish(config: &MessagingConfig, there: impl FnOnce() -> bool) {
    if !is_root() {
        eprintln!("skipped: only root becomes other users");
        return;
    }
    let child = fork(|| {
        become_user(STRANGER, GROUP).expect("root may");
        there()
    });
    let (mut child, mut sender, patience) =
        (child.expect("processes are left"), party(config), Patience::new());
    let source = sender.source("px");
    loop {
        assert!(patience.lasts(), "hangs");
        if let Some(is_good) = child.poll() {
            assert!(is_good, "what the child has to say is above");
            return;
        }
        sender.context.send(source, &[b"news"]).expect("it does not wait for anybody");
        sender.turn();
    }
}

#[test]
fn members_of_a_sources_group_receive_and_strangers_are_counted_and_told_why() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let config = |test, group: Option<&str>| {
        let base = config(test);
        MessagingConfig {
            transport: Transport::LbtIpc,
            counters_directory: String::new(),
            ipc: IpcConfig { group: group.map(str::to_owned), ..base.ipc },
            ..base
        }
    };
    let of_group = config(1, Some("64000"));
    publish(&of_group, || {
        let (mut receiver, patience) = (party(&of_group), Patience::new());
        receiver.receiver("px");
        while receiver.heard.payloads.len() < 10 && patience.lasts() {
            receiver.turn();
        }
        receiver.heard.payloads.len() >= 10 && receiver.context.ipc_denied().is_none()
    });
    let of_nobody = config(2, None);
    publish(&of_nobody, || {
        let (mut receiver, patience) = (party(&of_nobody), Patience::new());
        receiver.receiver("px");
        while receiver.counters.context.ipc_opens_denied.get() == 0 && patience.lasts() {
            receiver.turn();
        }
        let text = receiver.context.ipc_denied().expect("it was counted").to_owned();
        let is_told = ["64003", "/dev/shm/LBTIPC_", "0 (root)", "600"].iter().all(|word| text.contains(word));
        assert!(is_told, "{text}");
        receiver.heard.payloads.is_empty()
    });
}

#[test]
fn a_group_that_is_not_there_is_an_error_of_the_source() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let base = config(3);
    let config = MessagingConfig {
        transport: Transport::LbtIpc,
        ipc: IpcConfig { group: Some("nosuchgroup".to_owned()), ..base.ipc },
        ..base
    };
    let error = party(&config).context.create_source("px", &Default::default()).expect_err("no group");
    assert!(error.to_string().contains("nosuchgroup"), "{error}");
}
