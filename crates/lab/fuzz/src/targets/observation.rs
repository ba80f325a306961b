use observation::{FileError, HEAD_BYTES, Head, RECORD_BYTES, Reader, Record, SUM_BYTES, encode};

use crate::Outcome;

/// Input: a file of observations, whose check sum is made right, as of somebody who wants to be read, unless its first byte is
/// odd. The byte goes before the file.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let Some((is_odd, file)) = input.split_first().map(|(first, rest)| (first % 2 == 1, rest)) else {
        return Outcome::refused("nothing");
    };
    let mut file = file.to_vec();
    if let Some(at) = file.len().checked_sub(SUM_BYTES)
        && !is_odd
    {
        let sum = crc32fast::hash(&file[..at]);
        file[at..].copy_from_slice(&sum.to_le_bytes());
    }
    let read = read(&file);
    if let Ok((head, records)) = &read {
        assert_eq!(file.len(), HEAD_BYTES + records.len() * RECORD_BYTES + SUM_BYTES);
        assert!(head.records <= head.capacity && !head.point.is_empty());
        let (line, bounds) = (head.to_monotonic(), [head.start.ticks, head.end.ticks]);
        let times = records.iter().map(|record| record.ticks);
        assert!(times.clone().all(|ticks| (bounds[0]..=bounds[1]).contains(&ticks)));
        // Times keep their order on the other clock.
        let ends = bounds.map(|ticks| line.at(ticks));
        assert!(times.map(|ticks| line.at(ticks)).all(|ns| (ends[0]..=ends[1]).contains(&ns)));
        let again = encode(head, records).expect("it was read");
        assert_eq!(self::read(&again).expect("it was written"), (head.clone(), records.clone()));
        let _ = (head.error_ns(), head.doubt());
    }
    Outcome::of(&read, |(head, records)| {
        (head.clock, records.len().min(3), head.pages, head.doubt().is_some())
    })
}

fn read(file: &[u8]) -> Result<(Head, Vec<Record>), String> {
    let mut reader = Reader::new(file, file.len() as u64).map_err(said)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next().map_err(said)? {
        records.push(record);
    }
    Ok((reader.head().clone(), records))
}

/// Without the sums and marks in it, which would make each input another kind.
fn said(error: FileError) -> String {
    let text = error.to_string();
    let is_hex = ["its check sum", "bytes 12"].into_iter().find(|begin| text.starts_with(begin));
    is_hex.map_or(text.clone(), str::to_owned)
}
