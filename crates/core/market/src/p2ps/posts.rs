//! Posts that wait for their acknowledgement.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use rwf::{Domain, NakCode, PostMsg};
use units::Nanos;

/// The posts of all clients that want an acknowledgement and have none yet.
///
/// The parts of a post have one id and may each want an acknowledgement of its own.
#[derive(Debug, Default)]
pub(super) struct Posts {
    /// By conversation and post id.
    waiting: BTreeMap<(u64, u32), Waiting>,
    /// When each gives up waiting; the serial number tells those of one moment apart.
    deadlines: BTreeMap<(Nanos, u64), (u64, u32)>,
    last_serial: u64,
    /// Acknowledgements to come.
    count: usize,
}

#[derive(Debug)]
struct Waiting {
    instance: u64,
    is_private: bool,
    domain: Domain,
    deadline: (Nanos, u64),
    /// The sequence number of each part that is not acknowledged.
    parts: VecDeque<Option<u32>>,
}

/// Why a post goes no further.
pub(super) type PostRefusal = (NakCode, Cow<'static, str>);

/// A post, or a part of one, that nobody has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unanswered {
    pub(super) conversation: u64,
    pub(super) post_id: u32,
    pub(super) seq_num: Option<u32>,
    pub(super) domain: Domain,
    pub(super) is_private: bool,
}

impl Posts {
    /// Acknowledgements that are to come.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// When the first gives up waiting.
    pub(super) fn next_deadline(&self) -> Nanos {
        self.deadlines.keys().next().map_or(Nanos::NEVER, |(at, _)| *at)
    }

    /// Waits for the acknowledgement of a post, or of one more part of it.
    pub(super) fn add(
        &mut self,
        id: (u64, u32),
        (instance, is_private): (u64, bool),
        msg: &PostMsg<'_>,
        until: Nanos,
    ) {
        self.last_serial += 1;
        let deadline = (until, self.last_serial);
        let domain = msg.domain;
        let waiting = self.waiting.entry(id).or_insert_with(|| Waiting {
            instance,
            is_private,
            domain,
            deadline,
            parts: VecDeque::new(),
        });
        self.deadlines.remove(&waiting.deadline);
        waiting.deadline = deadline;
        waiting.instance = instance;
        waiting.parts.push_back(msg.seq_num);
        self.deadlines.insert(deadline, id);
        self.count += 1;
    }

    /// An acknowledgement has come; returns whether one was waited for.
    pub(super) fn answer(&mut self, id: (u64, u32), seq_num: Option<u32>) -> bool {
        let Some(waiting) = self.waiting.get_mut(&id) else { return false };
        let part = waiting.parts.iter().position(|part| *part == seq_num).unwrap_or(0);
        waiting.parts.remove(part);
        self.count -= 1;
        if waiting.parts.is_empty() {
            self.deadlines.remove(&waiting.deadline);
            self.waiting.remove(&id);
        }
        true
    }

    /// Gives up what was posted in a conversation, without a word.
    pub(super) fn forget(&mut self, conversation: u64) {
        let ids: Vec<(u64, u32)> =
            self.waiting.range((conversation, 0)..=(conversation, u32::MAX)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| drop(self.take(id)));
    }

    /// Takes out what has waited too long.
    pub(super) fn take_overdue(&mut self, now: Nanos) -> Vec<Unanswered> {
        let due = self.deadlines.range(..=(now, u64::MAX)).map(|(_, id)| *id).collect::<Vec<_>>();
        due.into_iter().flat_map(|id| self.take(id)).collect()
    }

    /// Takes out what an instance will not answer any more.
    pub(super) fn take_those_at(&mut self, instance: u64) -> Vec<Unanswered> {
        let lost = self.waiting.iter().filter(|(_, waiting)| waiting.instance == instance);
        let lost: Vec<(u64, u32)> = lost.map(|(id, _)| *id).collect();
        lost.into_iter().flat_map(|id| self.take(id)).collect()
    }

    fn take(&mut self, id: (u64, u32)) -> Vec<Unanswered> {
        let Some(Waiting { is_private, domain, deadline, parts, .. }) = self.waiting.remove(&id) else {
            return Vec::new();
        };
        self.deadlines.remove(&deadline);
        self.count -= parts.len();
        let (conversation, post_id) = id;
        let part = |seq_num| Unanswered { conversation, post_id, seq_num, domain, is_private };
        parts.into_iter().map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use rwf::DataType;

    use super::*;

    fn part(seq_num: u32) -> PostMsg<'static> {
        PostMsg { seq_num: Some(seq_num), ..PostMsg::new(Domain::MARKET_PRICE, 5, DataType::NO_DATA) }
    }

    fn two_parts_and_another() -> Posts {
        let mut posts = Posts::default();
        posts.add((1, 10), (77, false), &part(1), Nanos(100));
        posts.add((1, 10), (77, false), &part(2), Nanos(110));
        posts.add((2, 10), (78, true), &part(1), Nanos(105));
        posts
    }

    #[test]
    fn each_part_is_answered_once() {
        let mut posts = two_parts_and_another();
        assert_eq!((posts.len(), posts.next_deadline()), (3, Nanos(105)), "the last part's time counts");
        assert!(posts.answer((1, 10), Some(2)));
        assert!(posts.answer((1, 10), None), "an answer without a number is for the one that is left");
        assert!(!posts.answer((1, 10), Some(1)));
        assert_eq!(posts.len(), 1);
    }

    #[test]
    fn what_is_not_answered_comes_out_in_time_or_with_its_instance() {
        let mut posts = two_parts_and_another();
        assert_eq!(posts.take_overdue(Nanos(104)), []);
        let overdue = posts.take_overdue(Nanos(105));
        assert_eq!(overdue.len(), 1);
        assert!(overdue[0].is_private && overdue[0].conversation == 2);
        let lost = posts.take_those_at(77);
        assert_eq!(lost.iter().map(|post| post.seq_num).collect::<Vec<_>>(), [Some(1), Some(2)]);
        assert_eq!((posts.len(), posts.next_deadline()), (0, Nanos::NEVER));
    }

    #[test]
    fn what_a_client_leaves_behind_is_forgotten() {
        let mut posts = two_parts_and_another();
        posts.forget(1);
        assert_eq!((posts.len(), posts.next_deadline()), (1, Nanos(105)));
        assert!(!posts.answer((1, 10), Some(1)));
    }
}
