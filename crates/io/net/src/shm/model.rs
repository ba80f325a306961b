//! Interleavings of a source and a receiver, by loom, on a ring of four segments of two words: all with up to
//! three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
//!
//! `tools/weaken.py` weakens each ordering and leaves out each step of the protocol, and tells which model
//! notices; one that nobody notices must not be stronger than it is. Loom takes sequentially consistent
//! accesses for acquire and release, so there is none here: what must be seen in one order is fenced.

use loom::sync::Arc as ModelArc;
use std::sync::Arc;

use super::answers::{self, Answer};
use super::layout::{Geometry, RING_BYTES_MIN, Slot};
use super::producer::Producer;
use super::reader::{Missed, Place, ReadError, Reader};
use super::region::Region;
use super::sleep::{self, Wait};
use super::slots::{self, SlotState};
use super::sync::{AtomicU64, Relaxed};

/// Faults of this kind need few preemptions; without a bound some interleavings are too many.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(run);
}

fn region() -> Arc<Region> {
    Arc::new(Region::on_heap(Geometry::new(RING_BYTES_MIN).expect("the smallest is allowed")))
}

/// Commits and publishes a message that says its number; `false` if a receiver is in the way.
fn send(producer: &mut Producer, number: u64) -> bool {
    let Ok(mut claim) = producer.claim(8, number as u32) else { return false };
    claim.copy_from_slice(&number.to_le_bytes());
    claim.commit();
    producer.publish();
    true
}

/// A source that sets the pace and has filled the ring with 0 to 3, and a receiver that copies and has read nothing.
fn full_ring() -> (Producer, Reader) {
    let region = region();
    let mut producer = Producer::new(Arc::clone(&region), false);
    let reader = Reader::new(Arc::clone(&region), Place::copies(region.geometry()), 0);
    for number in 0..4 {
        send(&mut producer, number);
    }
    (producer, reader)
}

/// Polls once; returns the numbers, each checked against its tag.
fn poll(reader: &mut Reader, max: usize) -> Result<Vec<u64>, ReadError> {
    let mut numbers = Vec::new();
    reader.poll(max, |frame| {
        let number = u64::from_le_bytes(frame.bytes.try_into().expect("eight bytes"));
        assert_eq!(number as u32, frame.tag, "torn");
        numbers.push(number);
    })?;
    Ok(numbers)
}

#[test]
fn no_interleaving_delivers_a_torn_message() {
    model(|| {
        let (mut producer, mut reader) = full_ring();
        let writer = loom::thread::spawn(move || {
            for number in 4..6 {
                assert!(send(&mut producer, number), "it never waits");
            }
        });
        let mut next = 0;
        let mut turn = |reader: &mut Reader| match poll(reader, 1) {
            Ok(numbers) => {
                for number in numbers {
                    assert_eq!(number, next);
                    next += 1;
                }
            }
            Err(ReadError::Lapped(Missed { messages: Some(missed), bytes })) => {
                assert_eq!(bytes, missed * 16);
                next += missed;
            }
            Err(error) => panic!("{error}"),
        };
        turn(&mut reader);
        turn(&mut reader);
        writer.join().unwrap();
        for _ in 0..8 {
            turn(&mut reader);
        }
        assert_eq!(next, 6, "delivered and missed are all");
    });
}

/// Four messages fit a segment; each lies where one of the last lap was.
fn nothing_of_the_last_lap_is_shown(is_receiver_paced: bool, publish_each: bool) {
    model(move || {
        let geometry = Geometry::new(4 * RING_BYTES_MIN).expect("a power of two");
        let region = Arc::new(Region::on_heap(geometry));
        let mut producer = Producer::new(Arc::clone(&region), is_receiver_paced);
        let (place, start) = if is_receiver_paced {
            let (word, start) = slots::join(region.control(), 0, 1);
            (Place::Slot { index: 0, word }, start)
        } else {
            (Place::copies(geometry), 0)
        };
        let mut reader = Reader::new(Arc::clone(&region), place, start);
        for number in 0..16 {
            assert!(send(&mut producer, number));
            assert_eq!(poll(&mut reader, 2), Ok(vec![number]));
        }
        let writer = loom::thread::spawn(move || {
            for number in 16..19u64 {
                let mut claim = producer.claim(8, number as u32).expect("everything was read");
                claim.copy_from_slice(&number.to_le_bytes());
                claim.commit();
                if publish_each || number == 18 {
                    producer.publish();
                }
            }
        });
        let mut all = poll(&mut reader, 1).unwrap();
        all.extend(poll(&mut reader, 3).unwrap());
        writer.join().unwrap();
        all.extend(poll(&mut reader, 3).unwrap());
        assert_eq!(all, [16, 17, 18]);
    });
}

#[test]
fn no_interleaving_shows_what_was_there_before_in_place() {
    nothing_of_the_last_lap_is_shown(true, true);
}

#[test]
fn no_interleaving_shows_what_was_there_before_to_who_copies() {
    nothing_of_the_last_lap_is_shown(false, true);
}

#[test]
fn no_interleaving_shows_a_part_of_a_batch_before_it_is_whole() {
    nothing_of_the_last_lap_is_shown(true, false);
}

/// A ring with four messages for the receiver in slot 0, whose word comes last.
fn four_sent() -> (Arc<Region>, Producer, Reader, u64) {
    let region = region();
    let mut producer = Producer::new(Arc::clone(&region), true);
    let (word, start) = slots::join(region.control(), 0, 1);
    let reader = Reader::new(Arc::clone(&region), Place::Slot { index: 0, word }, start);
    for number in 0..4 {
        assert!(send(&mut producer, number));
    }
    (region, producer, reader, word)
}

/// What it has read may be overwritten; what it was reading when it left, too, but not before.
#[test]
fn no_interleaving_overwrites_a_receiver_that_leaves() {
    model(|| {
        let (region, mut producer, mut reader, word) = four_sent();
        let writer =
            loom::thread::spawn(move || (4..6).filter(|number| send(&mut producer, *number)).count());
        assert_eq!(poll(&mut reader, 1), Ok(vec![0]));
        slots::leave(region.control(), 0, word);
        writer.join().unwrap();
    });
}

#[test]
fn no_interleaving_overwrites_what_a_receiver_is_reading() {
    model(|| {
        let (_, mut producer, mut reader, _) = four_sent();
        let writer = loom::thread::spawn(move || {
            let mut sent = 4;
            for _ in 0..2 {
                sent += u64::from(send(&mut producer, sent));
            }
            sent
        });
        let mut all = poll(&mut reader, 1).unwrap();
        all.extend(poll(&mut reader, 2).unwrap());
        let sent = writer.join().unwrap();
        all.extend(poll(&mut reader, 8).unwrap());
        assert_eq!(all, (0..sent).collect::<Vec<_>>());
    });
}

/// Reads what there is, in order from where it joined.
fn all_since_joining(reader: &mut Reader, start: u64, sent: u64, mut all: Vec<u64>) {
    all.extend(poll(reader, 8).unwrap());
    assert_eq!(all, (start / 16..sent).collect::<Vec<_>>(), "all from where it joined");
}

/// Takes the slot, as the one whose lock it is.
fn join(region: &Arc<Region>) -> (Reader, u64, u64) {
    let (word, start) = slots::join(region.control(), 0, 1);
    (Reader::new(Arc::clone(region), Place::Slot { index: 0, word }, start), word, start)
}

/// The source comes to where the receiver begins once more.
fn overwrites_no_receiver_that_joins(publish_each: bool) {
    model(move || {
        let region = region();
        let mut producer = Producer::new(Arc::clone(&region), true);
        let writer = loom::thread::spawn(move || {
            let mut sent = 0u64;
            for _ in 0..5 {
                let Ok(mut claim) = producer.claim(8, sent as u32) else { break };
                claim.copy_from_slice(&sent.to_le_bytes());
                claim.commit();
                sent += 1;
                if publish_each {
                    producer.publish();
                }
            }
            producer.publish();
            (producer, sent)
        });
        let (mut reader, _, start) = join(&region);
        let all = poll(&mut reader, 1).unwrap();
        let (mut producer, sent) = writer.join().unwrap();
        all_since_joining(&mut reader, start, sent, all);
        assert!(send(&mut producer, sent), "it is not waited for any longer");
    });
}

#[test]
fn no_interleaving_overwrites_a_receiver_that_joins() {
    overwrites_no_receiver_that_joins(true);
}

#[test]
fn no_interleaving_overwrites_a_receiver_that_joins_a_source_that_does_not_publish() {
    overwrites_no_receiver_that_joins(false);
}

/// The source may take what the next owner says for the last one's; what that one has read it has read.
#[test]
fn no_interleaving_overwrites_a_receiver_whose_slot_goes_on_to_the_next() {
    model(|| {
        let (region, mut producer, mut reader, word) = four_sent();
        let writer = loom::thread::spawn(move || {
            let mut sent = 4;
            for _ in 0..2 {
                sent += u64::from(send(&mut producer, sent));
            }
            sent
        });
        assert_eq!(poll(&mut reader, 2), Ok(vec![0, 1]));
        slots::leave(region.control(), 0, word);
        let (mut reader, _, start) = join(&region);
        let sent = writer.join().unwrap();
        all_since_joining(&mut reader, start, sent, Vec::new());
    });
}

/// What the source does to the dead owner of a slot does not befall the next one.
fn spares_the_next_owner(end: fn(&Slot, u64) -> bool) {
    model(move || {
        let (region, mut producer, _, _) = four_sent();
        let writer = loom::thread::spawn(move || {
            let control = Arc::clone(producer.region());
            let slot = &control.control().slots[0];
            if let SlotState::Active { generation: 1, .. } = slots::look(slot) {
                end(slot, 1);
            }
            send(&mut producer, 4);
        });
        let (mut reader, word, _) = join(&region);
        writer.join().unwrap();
        assert!(slots::is_mine(&region.control().slots[0], word));
        let all = poll(&mut reader, 8).unwrap();
        assert!(all.is_empty() || all == [4], "what was published once it had joined");
    });
}

#[test]
fn no_interleaving_frees_the_slot_of_the_next_owner() {
    spares_the_next_owner(slots::reclaim);
}

#[test]
fn no_interleaving_drops_the_next_owner() {
    spares_the_next_owner(slots::drop_reader);
}

#[test]
fn no_interleaving_names_another_process_than_the_owner_s() {
    model(|| {
        let region = region();
        let (word, _) = slots::join(region.control(), 0, 1);
        slots::leave(region.control(), 0, word);
        let looker = {
            let region = ModelArc::new(Arc::clone(&region));
            loom::thread::spawn(move || {
                let slot = &region.control().slots[0];
                if let SlotState::Active { .. } = slots::look(slot) {
                    assert_eq!(slots::pid(slot), 2);
                }
            })
        };
        slots::join(region.control(), 0, 2);
        looker.join().unwrap();
    });
}

#[test]
fn no_interleaving_overwrites_what_a_dropped_receiver_is_reading() {
    model(|| {
        let (_, mut producer, mut reader, _) = four_sent();
        let writer = loom::thread::spawn(move || {
            let control = Arc::clone(producer.region());
            let slot = &control.control().slots[0];
            if let SlotState::Active { generation, position } = slots::look(slot)
                && producer.is_held_up_by(position)
            {
                slots::drop_reader(slot, generation);
            }
            (4..6).filter(|number| send(&mut producer, *number)).count()
        });
        let mut next = 0;
        for _ in 0..2 {
            match poll(&mut reader, 1) {
                Ok(numbers) => numbers.iter().for_each(|number| {
                    assert_eq!(*number, next, "until it hears that it was dropped, it misses nothing");
                    next += 1;
                }),
                Err(error) => assert_eq!(error, ReadError::Dropped),
            }
        }
        writer.join().unwrap();
    });
}

/// A ring with room for more messages in its segment, all of which were read: what comes next is published
/// without the fence of entering a segment.
fn in_a_segment() -> (Producer, Reader) {
    let geometry = Geometry::new(4 * RING_BYTES_MIN).expect("a power of two");
    let region = Arc::new(Region::on_heap(geometry));
    let mut producer = Producer::new(Arc::clone(&region), true);
    let (mut reader, _, _) = join(&region);
    assert!(send(&mut producer, 0));
    assert_eq!(poll(&mut reader, 1), Ok(vec![0]));
    (producer, reader)
}

/// What the source does while a receiver goes to sleep.
#[derive(Clone, Copy, PartialEq)]
enum Meanwhile {
    Publishes,
    Ends,
}

/// A receiver that sleeps without a limit is woken by the next publication or the end, and by neither before.
fn sleeps_through_nothing(is_noticed: bool, meanwhile: Meanwhile) {
    model(move || {
        let (mut producer, mut reader) = in_a_segment();
        let control = Arc::clone(producer.region());
        let mut sent = 1;
        if is_noticed {
            sleep::want_wakes(control.control());
            sent += u64::from(send(&mut producer, sent));
            assert_eq!(poll(&mut reader, 1), Ok(vec![1]));
            assert_eq!(producer.take_wakes(), 0);
        }
        let first = sent;
        let woken = ModelArc::new(AtomicU64::new(0));
        let writer = {
            let woken = ModelArc::clone(&woken);
            loom::thread::spawn(move || {
                if meanwhile == Meanwhile::Ends {
                    producer.close();
                    woken.fetch_or(producer.take_wakes(), Relaxed);
                    return first;
                }
                let count = if is_noticed { 1 } else { 2 };
                for number in first..first + count {
                    assert!(send(&mut producer, number));
                    woken.fetch_or(producer.take_wakes(), Relaxed);
                }
                first + count
            })
        };
        if !is_noticed {
            sleep::want_wakes(control.control());
        }
        let seen = poll(&mut reader, 8).unwrap();
        let wait = sleep::before_sleep(&reader, 0);
        let sent = writer.join().unwrap();
        let rest = poll(&mut reader, 8).unwrap();
        if wait == Wait::Sleep && (!rest.is_empty() || meanwhile == Meanwhile::Ends) {
            assert_eq!(woken.load(Relaxed), 1, "asleep for ever");
        }
        assert_eq!([seen, rest].concat(), (first..sent).collect::<Vec<_>>());
    });
}

#[test]
fn no_interleaving_sleeps_through_a_publication() {
    sleeps_through_nothing(true, Meanwhile::Publishes);
}

#[test]
fn no_interleaving_sleeps_before_the_source_has_noticed() {
    sleeps_through_nothing(false, Meanwhile::Publishes);
}

#[test]
fn no_interleaving_sleeps_through_the_end() {
    sleeps_through_nothing(true, Meanwhile::Ends);
}

/// What `Receiver::is_over` goes by.
#[test]
fn no_interleaving_ends_before_the_last_message() {
    model(|| {
        let (mut producer, mut reader) = in_a_segment();
        let writer = loom::thread::spawn(move || {
            assert!(send(&mut producer, 1));
            producer.close();
        });
        let mut all = poll(&mut reader, 1).unwrap();
        let is_over = reader.has_closed() && !reader.has_more();
        assert!(!is_over || all == [1], "over before everything was read");
        writer.join().unwrap();
        all.extend(poll(&mut reader, 1).unwrap());
        assert_eq!(all, [1]);
    });
}

/// A receiver that copies counts from the segment that it has entered last.
#[test]
fn no_interleaving_counts_from_the_last_lap() {
    model(|| {
        let (mut producer, mut reader) = full_ring();
        assert_eq!(poll(&mut reader, 4), Ok(vec![0, 1, 2, 3]));
        let writer = loom::thread::spawn(move || {
            send(&mut producer, 4);
            producer
        });
        let read = 4 + poll(&mut reader, 1).unwrap().len() as u64;
        let mut producer = writer.join().unwrap();
        for number in 5..12 {
            send(&mut producer, number);
        }
        let Err(ReadError::Lapped(Missed { messages: Some(missed), .. })) = poll(&mut reader, 1) else {
            panic!("the source has overtaken it")
        };
        let rest = poll(&mut reader, 8).unwrap();
        assert_eq!(rest, (read + missed..12).collect::<Vec<_>>(), "delivered and missed are all");
    });
}

#[test]
fn no_interleaving_loses_or_mixes_answers() {
    model(|| {
        let region = region();
        let answer = |receiver: u64| Answer { receiver, number: receiver as u32, topics: receiver as u32 };
        let receivers = [1, 2].map(|receiver| {
            let region = Arc::clone(&region);
            loom::thread::spawn(move || answers::put(region.control(), answer(receiver)))
        });
        let mut taken = Vec::new();
        answers::take(region.control(), |answer| taken.push(answer));
        let put = receivers.map(|receiver| receiver.join().expect("it ends"));
        answers::take(region.control(), |answer| taken.push(answer));
        taken.sort_by_key(|answer| answer.receiver);
        let wanted: Vec<_> =
            [1, 2].into_iter().zip(put).filter_map(|(r, put)| put.then(|| answer(r))).collect();
        assert_eq!(taken, wanted);
    });
}
