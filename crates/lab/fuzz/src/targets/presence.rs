use lbt::presence::{Answer, Answers, Query, Taken, Watch};
use lbt::wire::extension::EXTENSION_HEADER_LEN;
use units::Nanos;

use crate::Outcome;

/// Input: a trailer. A query and an answer in it read the same when they are written again; a source that asks for
/// three topics counts no more receivers than there were answers, and a receiver answers with no more bytes than it
/// was asked with.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let mut out = Vec::new();
    let query = Query::find(input);
    if let Some(query) = &query {
        query.emit(&mut out);
        assert_eq!(Query::find(&out).as_ref(), Some(query));
        let mut answers = Answers::new(1);
        answers.on_query(Nanos(0), query, |topic| topic % 2 == 1);
        assert!(answers.due() == Nanos::NEVER || answers.due() <= Nanos(0) + query.window());
        if let Some(answer) = answers.poll(answers.due()) {
            assert_eq!(answer.number, query.number);
            assert!(answer.topics.checked_ilog2() < Some(query.topics().len() as u32));
        }
    }
    let answer = Answer::find(input);
    let mut taken = None;
    if let Some(answer) = &answer {
        out.clear();
        answer.emit(&mut out);
        assert_eq!(Answer::find(&out), Some(*answer));
        assert!(out.len() > EXTENSION_HEADER_LEN);
        let mut watch = Watch::new(0);
        (1..4).for_each(|topic| watch.watch(Nanos(0), topic, topic));
        watch.poll_query(Nanos(0)).expect("somebody waits");
        taken = Some(watch.on_answer(answer, None));
        let counted: usize = (1..4).filter_map(|topic| watch.count(topic)).sum();
        let named = (answer.topics & 0b111).count_ones() as usize;
        assert_eq!(counted, if taken == Some(Taken::Counted) { named } else { 0 });
    }
    match (&query, taken) {
        (None, None) => Outcome::refused(input.len().min(64)),
        (query, taken) => {
            let shape = query.as_ref().map(|q| (q.share, q.topics().len()));
            Outcome::accepted((shape, taken.map(|taken| taken as u8)))
        }
    }
}
