//! The ring alone, on the heap: nothing here needs a file, so all of it runs under Miri.

use std::collections::VecDeque;
use std::sync::Arc;

use units::Rng;

use crate::shm::layout::{Geometry, RING_BYTES_MIN, SEGMENT_COUNT};
use crate::shm::producer::{ClaimError, Producer};
use crate::shm::reader::{Missed, Place, ReadError, Reader};
use crate::shm::region::Region;
use crate::shm::slots;
use crate::shm::sync::Relaxed;

const SEGMENT: u64 = RING_BYTES_MIN / SEGMENT_COUNT;
/// Under Miri everything takes a thousand times as long.
const SCALE: usize = if cfg!(miri) { 500 } else { 1 };

fn region() -> Arc<Region> {
    Arc::new(Region::on_heap(Geometry::new(RING_BYTES_MIN).expect("the smallest is allowed")))
}

fn ring(is_receiver_paced: bool) -> (Producer, Reader) {
    let region = region();
    let producer = Producer::new(Arc::clone(&region), is_receiver_paced);
    let reader = if is_receiver_paced { in_place(&region, 0).0 } else { copying(&region) };
    (producer, reader)
}

fn in_place(region: &Arc<Region>, index: usize) -> (Reader, u64) {
    let (word, start) = slots::join(region.control(), index, 1);
    (Reader::new(Arc::clone(region), Place::Slot { index, word }, start), word)
}

fn copying(region: &Arc<Region>) -> Reader {
    let start = region.control().published.0.load(Relaxed);
    Reader::new(Arc::clone(region), Place::copies(region.geometry()), start)
}

fn push(producer: &mut Producer, tag: u32, message: &[u8]) -> Result<(), ClaimError> {
    let mut claim = producer.claim(message.len(), tag)?;
    claim.copy_from_slice(message);
    claim.commit();
    Ok(())
}

fn read_all(reader: &mut Reader) -> Vec<(u32, Vec<u8>)> {
    let mut all = Vec::new();
    reader
        .poll(usize::MAX, |frame| all.push((frame.tag, frame.bytes.to_vec())))
        .expect("no loss, no nonsense");
    all
}

/// Messages of 1,016 bytes, four to a segment, numbered, until the ring has been filled `laps` times.
fn fill_laps(producer: &mut Producer, from: u32, laps: u64) -> u32 {
    let count = (laps * SEGMENT_COUNT * 4) as u32;
    for i in from..from + count {
        push(producer, i, &[i as u8; 1016]).expect("nobody is in the way");
    }
    producer.publish();
    from + count
}

#[test]
fn messages_come_out_as_they_went_in() {
    for is_receiver_paced in [true, false] {
        let (mut producer, mut reader) = ring(is_receiver_paced);
        push(&mut producer, 7, b"one").unwrap();
        push(&mut producer, u32::MAX, b"").unwrap();
        assert_eq!(read_all(&mut reader), [], "nothing is seen before it is published");
        assert!(producer.publish());
        assert!(!producer.publish(), "there is nothing new");
        assert!(reader.has_more());
        assert_eq!(read_all(&mut reader), [(7, b"one".to_vec()), (u32::MAX, vec![])]);
        assert!(!reader.has_more());
        assert_eq!((producer.frames(), producer.position()), (2, 24));
    }
}

#[test]
fn a_claim_that_is_dropped_leaves_nothing_and_one_may_be_cut() {
    for is_receiver_paced in [true, false] {
        let (mut producer, mut reader) = ring(is_receiver_paced);
        producer.claim(100, 1).unwrap().fill(1);
        let mut claim = producer.claim(100, 2).unwrap();
        claim[..5].copy_from_slice(b"short");
        claim.commit_first(5);
        push(&mut producer, 3, b"next").unwrap();
        producer.publish();
        assert_eq!(read_all(&mut reader), [(2, b"short".to_vec()), (3, b"next".to_vec())]);
    }
}

#[test]
fn a_message_that_can_never_fit_is_named() {
    let (mut producer, mut reader) = ring(true);
    let max = producer.message_max_bytes();
    assert_eq!(max as u64, SEGMENT - 8);
    for bytes in [max + 1, usize::MAX] {
        assert_eq!(producer.claim(bytes, 0).err(), Some(ClaimError::TooLong { bytes, max }));
    }
    for _ in 0..2 {
        push(&mut producer, 0, &vec![5; max]).unwrap();
    }
    producer.publish();
    assert_eq!(read_all(&mut reader).len(), 2);
}

#[test]
fn a_full_ring_refuses_and_goes_on_after_a_read() {
    let (mut producer, mut fast) = ring(true);
    let (mut slow, _) = in_place(producer.region(), 1);
    let mut pushed = 0;
    while push(&mut producer, pushed, &[0; 1016]).is_ok() {
        pushed += 1;
    }
    assert_eq!(u64::from(pushed), 4 * SEGMENT_COUNT, "the whole ring");
    assert_eq!(read_all(&mut fast).len(), pushed as usize, "a full ring has published what it has");
    assert_eq!(push(&mut producer, 0, &[0; 1016]), Err(ClaimError::Full), "one receiver is behind");
    assert_eq!(slow.poll(3, |_| {}), Ok(3));
    assert_eq!(
        push(&mut producer, 0, &[0; 1016]),
        Err(ClaimError::Full),
        "it has not left the first segment"
    );
    assert_eq!(slow.poll(1, |_| {}), Ok(1));
    assert_eq!(push(&mut producer, 0, &[0; 1016]), Ok(()));
}

#[test]
fn a_ring_without_receivers_never_fills() {
    let mut producer = Producer::new(region(), true);
    fill_laps(&mut producer, 0, 3);
    let (mut late, _) = in_place(producer.region(), 5);
    assert_eq!(read_all(&mut late), [], "a receiver begins with the next message");
    push(&mut producer, 9, b"next").unwrap();
    producer.publish();
    assert_eq!(read_all(&mut late), [(9, b"next".to_vec())]);
}

#[test]
fn every_length_survives_every_wrap() {
    let _repeat = testkit::repeat!();
    for is_receiver_paced in [true, false] {
        let (mut producer, mut reader) = ring(is_receiver_paced);
        let mut rng = Rng::new(11);
        let mut expected = VecDeque::new();
        let expect = |reader: &mut Reader, expected: &mut VecDeque<(u32, Vec<u8>)>, max| {
            reader
                .poll(max, |frame| {
                    let (tag, message) = expected.pop_front().expect("one was pushed");
                    assert_eq!((frame.tag, frame.bytes), (tag, &message[..]));
                })
                .expect("no loss, no nonsense")
        };
        for i in 0..(20_000 / SCALE) as u32 {
            let longest = if i % 16 == 0 { producer.message_max_bytes() } else { 200 };
            let message = vec![i as u8; rng.below(longest as u64 + 1) as usize];
            expected.push_back((i, message.clone()));
            while push(&mut producer, i, &message) == Err(ClaimError::Full) {
                assert_ne!(expect(&mut reader, &mut expected, 3), 0);
            }
            if rng.below(4) == 0 {
                producer.publish();
            }
            if rng.below(8) == 0 {
                expect(&mut reader, &mut expected, rng.below(20) as usize);
            }
            if !is_receiver_paced && expected.len() > 20 {
                producer.publish();
                expect(&mut reader, &mut expected, usize::MAX);
            }
        }
        producer.publish();
        expect(&mut reader, &mut expected, usize::MAX);
        assert!(expected.is_empty());
    }
}

#[test]
fn a_lapped_receiver_is_told_what_it_missed() {
    let (mut producer, mut reader) = ring(false);
    let mut late = None;
    let mut sent = 0;
    while sent < 6 {
        push(&mut producer, sent, &[sent as u8; 1016]).unwrap();
        producer.publish();
        sent += 1;
        if sent == 2 {
            late = Some(copying(producer.region()));
        }
    }
    assert_eq!(reader.poll(5, |_| {}), Ok(5));
    sent = fill_laps(&mut producer, sent, 3);
    let reserved = u64::from(sent).next_multiple_of(4) * 1024;
    let goes_on_at = reserved - RING_BYTES_MIN / 2;
    let missed = Missed { bytes: goes_on_at - 5 * 1024, messages: Some(goes_on_at / 1024 - 5) };
    assert_eq!(reader.poll(usize::MAX, |_| {}), Err(ReadError::Lapped(missed)));
    let mut late = late.expect("opened behind the second message");
    let missed = Missed { bytes: goes_on_at - 2 * 1024, messages: None };
    assert_eq!(late.poll(usize::MAX, |_| {}), Err(ReadError::Lapped(missed)), "it has seen no segment begin");
    for reader in [&mut reader, &mut late] {
        let rest = read_all(reader);
        let tags: Vec<u32> = rest.iter().map(|(tag, _)| *tag).collect();
        assert_eq!(tags, ((goes_on_at / 1024) as u32..sent).collect::<Vec<_>>());
        assert!(rest.iter().all(|(tag, message)| message.iter().all(|byte| *byte == *tag as u8)));
    }
}

#[test]
fn a_receiver_that_is_lapped_within_a_poll_gets_what_it_had_copied_first() {
    let (mut producer, mut reader) = ring(false);
    let mut sent = fill_laps(&mut producer, 0, 1) - 4;
    let mut tags = Vec::new();
    let count = reader.poll(usize::MAX, |frame| {
        assert!(frame.bytes.iter().all(|byte| *byte == frame.tag as u8), "whole");
        tags.push(frame.tag);
        if frame.tag == 5 {
            sent = fill_laps(&mut producer, sent + 4, 2);
        }
        assert!(frame.bytes.iter().all(|byte| *byte == frame.tag as u8), "and a copy");
    });
    assert_eq!((count, &tags[..]), (Ok(6), &[0, 1, 2, 3, 4, 5][..]));
    let lapped = reader.poll(usize::MAX, |_| {});
    let Err(ReadError::Lapped(Missed { messages: Some(missed), .. })) = lapped else {
        panic!("{lapped:?}");
    };
    assert_eq!(
        read_all(&mut reader).len() as u64 + missed + 6,
        u64::from(sent),
        "delivered and missed are all"
    );
}

#[test]
fn a_dropped_receiver_keeps_what_it_is_reading() {
    let (mut producer, _) = ring(true);
    let region = Arc::clone(producer.region());
    slots::leave(region.control(), 0, 1 << 2 | 1);
    let (mut stopped, word) = in_place(&region, 3);
    let mut sent = 0;
    while push(&mut producer, sent, &[sent as u8; 1016]).is_ok() {
        sent += 1;
    }
    assert!(producer.is_held_up_by(stopped.position()));
    let mut seen = Vec::new();
    stopped
        .poll(usize::MAX, |frame| {
            seen.push(frame.tag);
            if frame.tag == 5 {
                let generation = word >> 2;
                assert!(slots::drop_reader(&region.control().slots[3], generation));
                assert!(!slots::drop_reader(&region.control().slots[3], generation), "once");
                let (mut other, _) = in_place(&region, 4);
                for _ in 0..200 {
                    push(&mut producer, sent, &[sent as u8; 1016]).expect("the others go on");
                    producer.publish();
                    assert_eq!(read_all(&mut other), [(sent, vec![sent as u8; 1016])]);
                    sent += 1;
                }
            }
            assert!(frame.bytes.iter().all(|byte| *byte == frame.tag as u8), "whole to the end");
        })
        .expect("what was read before counts");
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7], "the segment it was in, which nobody has touched");
    assert_eq!(stopped.poll(1, |_| {}), Err(ReadError::Dropped));
    assert_eq!(stopped.poll(1, |_| {}), Err(ReadError::Dropped), "and it stays so");
    let skipped = producer.segments_skipped();
    assert_eq!(skipped, 4, "200 messages are three rounds and more, without that segment");
    slots::leave(region.control(), 3, word);
    slots::leave(region.control(), 4, 1 << 2 | 1);
    fill_laps(&mut producer, 0, 2);
    assert_eq!(producer.segments_skipped(), skipped, "its segment is in use again");
}

#[test]
fn a_slot_that_was_taken_again_is_not_reclaimed() {
    let region = region();
    let slot = &region.control().slots[0];
    let (_, first) = in_place(&region, 0);
    let (_, second) = in_place(&region, 0);
    assert!(!slots::reclaim(slot, first >> 2));
    assert!(!slots::drop_reader(slot, first >> 2));
    assert!(slots::is_mine(slot, second));
    assert!(slots::reclaim(slot, second >> 2));
    assert_eq!(slots::look(slot), slots::SlotState::Free);
}

#[test]
fn nonsense_in_the_ring_is_an_error() {
    testkit::for_each_seed!(0..(4_000 / SCALE) as u64, |seed| {
        let mut rng = Rng::new(seed);
        let (mut producer, mut reader) = ring(seed % 2 == 0);
        for i in 0..rng.below(100) as u32 {
            if push(&mut producer, i, &vec![0; rng.below(300) as usize]).is_err() {
                break;
            }
        }
        producer.publish();
        let region = Arc::clone(producer.region());
        let (control, any) = (region.control(), rng.next_u64() >> rng.below(64));
        match rng.below(4) {
            0 => control.published.0.store(any, Relaxed),
            1 => control.source.reserved.store(any, Relaxed),
            2 => control.segment_frames[rng.below(SEGMENT_COUNT) as usize].store(any, Relaxed),
            _ => {}
        }
        for _ in 0..rng.below(8) {
            region.set_header(rng.below(RING_BYTES_MIN) & !7, rng.next_u64() >> rng.below(64));
        }
        for _ in 0..8 {
            let mut bytes = 0u64;
            let _ = reader.poll(100, |frame| bytes += frame.bytes.iter().map(|b| u64::from(*b)).sum::<u64>());
        }
        let (word, start) = slots::join(control, 1, 1);
        let places = [Place::Slot { index: 1, word }, Place::copies(region.geometry())];
        for place in places {
            let mut late = Reader::new(Arc::clone(&region), place, start);
            let _ = late.poll(100, |frame| assert!(frame.bytes.len() as u64 <= RING_BYTES_MIN));
        }
        control.slots[0].position.store(any, Relaxed);
        let _ = push(&mut producer, 0, &[0; 4000]);
    });
}

/// Does what `slots::join` does, with two pauses in which the source would go around the ring.
#[test]
fn who_takes_long_to_join_is_waited_for() {
    let region = region();
    let mut producer = Producer::new(Arc::clone(&region), true);
    let (control, word) = (region.control(), 1 << 2 | 1);
    let before = control.published.0.load(Relaxed);
    let mut sent = fill_laps(&mut producer, 0, 2);
    control.slots[0].position.store(before, Relaxed);
    control.slots[0].state.store(word, Relaxed);
    let start = control.published.0.load(Relaxed);
    let first = sent;
    while sent < first + 2 * 64 && push(&mut producer, sent, &[sent as u8; 1016]).is_ok() {
        sent += 1;
    }
    producer.publish();
    control.slots[0].position.store(start, Relaxed);
    let mut reader = Reader::new(Arc::clone(&region), Place::Slot { index: 0, word }, start);
    let heard: Vec<u32> = read_all(&mut reader).into_iter().map(|(tag, _)| tag).collect();
    assert_eq!(heard, (first..sent).collect::<Vec<_>>(), "all from where it joined");
    assert!(push(&mut producer, sent, &[0; 1016]).is_ok(), "it is not waited for any longer");
}

#[test]
fn who_joins_where_no_source_can_be_is_told() {
    for position in [1, 4, RING_BYTES_MIN + 7, 1 << 62, !7, u64::MAX] {
        let region = Arc::clone(ring(true).0.region());
        region.control().published.0.store(position, Relaxed);
        let (word, start) = slots::join(region.control(), 1, 1);
        let places = [Place::Slot { index: 1, word }, Place::copies(region.geometry())];
        for place in places {
            let mut late = Reader::new(Arc::clone(&region), place, start);
            for _ in 0..2 {
                assert_eq!(
                    late.poll(1, |_| panic!("there is nothing")),
                    Err(ReadError::Nonsense { position })
                );
            }
        }
    }
}

#[test]
fn two_threads_lose_and_mix_nothing() {
    let (mut producer, mut reader) = ring(true);
    let count = (100_000 / SCALE) as u32;
    let writer = std::thread::spawn(move || {
        for i in 0..count {
            let message = u64::from(i).to_le_bytes().repeat(1 + i as usize % 9);
            while push(&mut producer, i, &message).is_err() {
                std::thread::yield_now();
            }
            if i % 3 == 0 {
                producer.publish();
            }
        }
        producer.publish();
    });
    let mut next = 0;
    while next < count {
        reader
            .poll(64, |frame| {
                assert_eq!(frame.tag, next);
                assert_eq!(frame.bytes, u64::from(next).to_le_bytes().repeat(1 + next as usize % 9));
                next += 1;
            })
            .expect("the source waits");
        std::thread::yield_now();
    }
    writer.join().unwrap();
}

#[test]
fn a_thread_that_is_lapped_all_the_time_sees_whole_messages_and_misses_the_rest() {
    let (mut producer, mut reader) = ring(false);
    let count = (100_000 / SCALE) as u32;
    let writer = std::thread::spawn(move || {
        for i in 0..count {
            push(&mut producer, i, &u64::from(i).to_le_bytes().repeat(1 + i as usize % 90))
                .expect("it never waits");
            producer.publish();
        }
    });
    let (mut next, mut missed) = (0, 0);
    while next < count {
        let polled = reader.poll(10, |frame| {
            assert_eq!(frame.tag, next);
            assert_eq!(frame.bytes, u64::from(next).to_le_bytes().repeat(1 + next as usize % 90));
            next += 1;
        });
        match polled {
            Ok(_) => std::thread::yield_now(),
            Err(ReadError::Lapped(Missed { messages: Some(messages), .. })) => {
                next += messages as u32;
                missed += messages;
            }
            Err(error) => panic!("{error}"),
        }
    }
    writer.join().unwrap();
    assert!(missed < u64::from(count));
}
