//! Children made by `fork`: those of a process with contexts do nothing to it, and make contexts of their own.

mod common;

use std::time::Duration;

use common::{Heard, Party, Patience, config, meet, party, until};
use testkit::child::fork;
use testkit::watchdog::WATCHDOG;
use tickcast_messaging::{
    CallError, ContextCounters, ContextError, EmbeddedContext, Forked, MessagingConfig, QueueError,
    ReceiverOptions, RequestError, SendError, Source, SourceEvent, SourceOptions, Transport,
};

/// Sends so many messages that the receiver gets, and nothing else.
fn exchange(sender: &mut Party, source: Source, receiver: &mut Party, count: u32) {
    receiver.heard.forget_payloads();
    let patience = Patience::new();
    for i in 0..count {
        while let Err(error) = sender.context.send(source, &[&i.to_be_bytes()]) {
            assert_eq!(error, SendError::WouldBlock);
            assert!(patience.lasts(), "hangs");
            sender.turn();
            receiver.turn();
        }
    }
    until(&mut [sender, receiver], |all| all[1].heard.payloads.len() >= count as usize);
    assert!(receiver.heard.numbers().eq(0..count));
    assert_eq!((receiver.heard.lost, &receiver.heard.ends[..]), (0, &[][..]));
}

impl Heard {
    fn forget_payloads(&mut self) {
        self.payloads.clear();
    }
}

/// A context that sends, its source, and one that receives.
fn pair(config: &MessagingConfig) -> (Party, Source, Party) {
    let (mut sender, mut receiver) = (party(config), party(config));
    let source = sender.source("px");
    receiver.receiver("px");
    meet(&mut sender, source, &mut receiver);
    // What was sent to meet has arrived when this has.
    sender.context.send(source, &[b"last"]).expect("there is room");
    until(&mut [&mut sender, &mut receiver], |all| {
        all[1].heard.payloads.last().is_some_and(|last| last == b"last")
    });
    (sender, source, receiver)
}

/// Everything a child may ask of its parent's context, and what it is told.
fn is_refused(party: &mut Party, source: Source) -> bool {
    let Party { context, heard, .. } = party;
    let is_forked = |error: std::io::Error| Forked::is(&error);
    let is_made_by_parent = |error: ContextError| matches!(error, ContextError::Forked(_));
    context.flush();
    context.flush_source(source);
    context.delete_source(source);
    context.send(source, &[b"from the child"]) == Err(SendError::Forked)
        && context.claim(source, 8).err() == Some(SendError::Forked)
        && matches!(context.request(source, &[b"?"]), Err(RequestError::Send(SendError::Forked)))
        && context.create_source("py", &SourceOptions::default()).is_err_and(is_made_by_parent)
        && context.create_receiver("py", &ReceiverOptions::default()).is_err_and(is_made_by_parent)
        && context.listen().is_err_and(is_made_by_parent)
        && context.poll(heard).is_err_and(is_forked)
        && context.wait(None, heard).is_err_and(is_forked)
        && context.until_wakeup() == Some(Duration::ZERO)
}

#[test]
fn a_child_that_drops_its_parents_contexts_does_nothing_to_them_and_has_its_own() {
    for (test, transport) in Transport::ALL.iter().enumerate() {
        let config = |test| MessagingConfig { transport: *transport, ..config(test) };
        let place = 1 + 2 * test as u8;
        let (mut sender, source, mut receiver) = pair(&config(place));
        exchange(&mut sender, source, &mut receiver, 500);
        // Something of it waits to be sent: by the parent, and once.
        sender.context.send(source, &[&0u32.to_be_bytes()]).expect("there is room");
        let mut both = Some((sender, receiver));
        let child = fork(|| {
            let (mut sender, mut receiver) = both.take().expect("as in the parent");
            let is_refused =
                is_refused(&mut sender, source) && receiver.context.poll(&mut receiver.heard).is_err();
            sender.context.end();
            drop((sender, receiver));
            let (mut sender, source, mut receiver) = pair(&config(place + 1));
            exchange(&mut sender, source, &mut receiver, 500);
            if *transport == Transport::Tcp {
                while sender.context.send(source, &[&[0; 10_000]]).is_ok() {}
                until(&mut [&mut sender, &mut receiver], |all| {
                    all[0].heard.events.contains(&(source, SourceEvent::WakeUp))
                });
            }
            is_refused
        });
        assert!(child.expect("processes are left").has_ended_well(), "{transport:?}");
        (sender, receiver) = both.take().expect("the child has a copy");
        until(&mut [&mut sender, &mut receiver], |all| all[1].heard.payloads.len() == 501);
        exchange(&mut sender, source, &mut receiver, 500);
        sender.context.end();
        until(&mut [&mut receiver], |all| !all[0].heard.ends.is_empty());
    }
}

#[test]
fn a_session_ends_with_its_process_though_a_child_lives_on() {
    for (test, transport) in [Transport::Tcp, Transport::LbtIpc].into_iter().enumerate() {
        let config = MessagingConfig { transport, ..config(21 + test as u8) };
        let (mut sender, source, mut receiver) = pair(&config);
        let mut stop = std::os::unix::net::UnixStream::pair().expect("descriptors are left");
        let child = fork(|| {
            use std::io::Read;
            // The other end is the parent's, which says when it has seen enough.
            let _ = stop.1.set_read_timeout(Some(WATCHDOG));
            stop.1.read(&mut [0]).is_ok_and(|length| length == 0)
        });
        exchange(&mut sender, source, &mut receiver, 10);
        // Of a connection nothing is said: what ends it is that the kernel has closed all there was.
        drop(sender.context);
        until(&mut [&mut receiver], |all| !all[0].heard.ends.is_empty());
        let _ = stop.0.shutdown(std::net::Shutdown::Write);
        assert!(child.expect("processes are left").has_ended_well(), "{transport:?}");
    }
}

#[test]
fn a_context_with_a_thread_refuses_a_child_and_does_not_wait_for_a_thread_that_is_not_there() {
    let config = config(31);
    let start = || EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
    let (queued, queue) =
        EmbeddedContext::start_queued(&config, ContextCounters::default()).expect("it starts");
    let embedded = start();
    let source = embedded.create_source("px", &SourceOptions::default()).expect("a port is free");
    let mut all = Some((embedded, source, queued, queue));
    let child = fork(|| {
        let (embedded, mut source, queued, mut queue) = all.take().expect("as in the parent");
        let is_refused = embedded.call(|_| ()) == Err(CallError::Stopped)
            && source.send(&[b"from the child"]) == Err(QueueError::Forked)
            && matches!(
                embedded.create_source("py", &SourceOptions::default()),
                Err(ContextError::Forked(_))
            )
            && queue.dispatch(10, &mut ()) == 0
            && queue.is_over();
        drop((source, queued, queue));
        let is_told = embedded.stop().is_err_and(|error| Forked::is(&error));
        let own = EmbeddedContext::start(&config, ContextCounters::default(), ()).expect("it starts");
        is_refused && is_told && own.call(|_| ()) == Ok(()) && own.stop().is_ok()
    });
    assert!(child.expect("processes are left").has_ended_well());
    let (embedded, mut source, queued, queue) = all.take().expect("the child has a copy");
    source.send(&[b"from the parent"]).expect("there is room");
    assert_eq!(embedded.call(|_| 7), Ok(7));
    assert!(!queue.is_over());
    embedded.stop().expect("its thread is there");
    queued.stop().expect("its thread is there");
}

#[test]
fn programs_that_a_process_executes_get_none_of_its_descriptors() {
    let config = MessagingConfig { transport: Transport::LbtIpc, ..config(32) };
    let mut pairs: Vec<_> = vec![pair(&config)];
    for (test, transport) in Transport::ALL.iter().enumerate() {
        pairs.push(pair(&MessagingConfig { transport: *transport, ..common::config(33 + test as u8) }));
    }
    let (sender, _, receiver) = &mut pairs[0];
    sender.context.listen().expect("a port is free");
    // Those of sleeping receivers come with the first sleep.
    until(&mut [sender, receiver], |all| all[1].context.until_wakeup().is_some());
    for entry in std::fs::read_dir("/proc/self/fd").expect("the kernel shows it") {
        let name = entry.expect("the kernel shows it").file_name();
        let number = name.to_str().expect("a number");
        // The one that lists the others is gone by now.
        let Ok(target) = std::fs::read_link(format!("/proc/self/fd/{number}")) else { continue };
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).expect("it is open");
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).expect("it has flags");
        let flags = u32::from_str_radix(flags.trim(), 8).expect("octal");
        let is_ours = ["socket:", "/dev/shm/LBTIPC", "anon_inode:"]
            .iter()
            .any(|kind| target.to_string_lossy().starts_with(kind));
        assert!(
            !is_ours || flags & 0o2_000_000 != 0,
            "{number} -> {} is not close-on-exec",
            target.display()
        );
    }
}
