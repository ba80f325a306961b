//! Every interleaving of a source and a receiver with up to three preemptions, by loom, on a ring of four
//! segments of two words.

use loom::sync::Arc as ModelArc;
use std::sync::Arc;

use super::layout::{Geometry, RING_BYTES_MIN};
use super::producer::Producer;
use super::reader::{Missed, Place, ReadError, Reader};
use super::region::Region;
use super::slots::{self, SlotState};
use super::sync::{Acquire, AtomicU64, Relaxed, Release, SeqCst, fence};

/// Faults of this kind need few preemptions; without a bound the interleavings are too many.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
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
        let region = region();
        let mut producer = Producer::new(Arc::clone(&region), false);
        let mut reader = Reader::new(Arc::clone(&region), Place::copies(region.geometry()), 0);
        for number in 0..4 {
            send(&mut producer, number);
        }
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

#[test]
fn no_interleaving_overwrites_a_receiver_that_joins() {
    model(|| {
        let region = region();
        let mut producer = Producer::new(Arc::clone(&region), true);
        for number in 0..3 {
            assert!(send(&mut producer, number));
        }
        let writer = loom::thread::spawn(move || {
            let mut sent = 3;
            for _ in 0..4 {
                sent += u64::from(send(&mut producer, sent));
            }
            sent
        });
        let (word, start) = slots::join(region.control(), 0, 1);
        let mut reader = Reader::new(Arc::clone(&region), Place::Slot { index: 0, word }, start);
        let mut all = poll(&mut reader, 1).unwrap();
        let sent = writer.join().unwrap();
        all.extend(poll(&mut reader, 8).unwrap());
        assert_eq!(all, (start / 16..sent).collect::<Vec<_>>(), "all from where it joined");
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

#[test]
fn no_interleaving_sleeps_through_a_publication() {
    model(|| {
        let region = region();
        let mut producer = Producer::new(Arc::clone(&region), true);
        let control = ModelArc::new(Arc::clone(&region));
        control.control().wake_wanted.0.store(1, Release);
        let woken = ModelArc::new(AtomicU64::new(0));
        let (word, start) = slots::join(region.control(), 0, 1);
        let mut reader = Reader::new(Arc::clone(&region), Place::Slot { index: 0, word }, start);
        let writer = {
            let woken = ModelArc::clone(&woken);
            loom::thread::spawn(move || {
                for number in 0..2 {
                    assert!(send(&mut producer, number));
                    woken.fetch_or(producer.take_wakes(), Relaxed);
                }
            })
        };
        // What `Receiver::before_sleep` does.
        let is_noticed = control.control().source.looks_for_sleepers.load(Acquire) != 0;
        control.control().sleepers.0.fetch_or(1, Relaxed);
        fence(SeqCst);
        let sleeps = !reader.has_more() && is_noticed;
        writer.join().unwrap();
        if sleeps {
            assert_eq!(woken.load(Relaxed), 1, "asleep for ever");
        }
        assert_eq!(poll(&mut reader, 8), Ok(vec![0, 1]));
    });
}
