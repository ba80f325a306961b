//! Who receives a topic: a source asks, receivers answer. Nothing is sent unless somebody waits for receivers.
//!
//! A source that waits asks in its session: "who receives topics X, Y, ...?" ([`Query`]). So an answer also proves
//! that the receiver hears the session. A receiver that has subscribed to one of them answers ([`Answer`]), under a
//! number that it drew at random. [`Watch`] is the source's side, [`Answers`] the receiver's; the transports carry the
//! bytes.
//!
//! | transport | a query is | an answer is |
//! |---|---|---|
//! | LBT-RM, LBT-RU | in the trailer of a session message | in the trailer of a NAK of no numbers |
//! | TCP | a control message of the stream | a control message to the source, on the same connection |
//! | shared memory | a control message of the ring | a place among the answers before the ring |
//!
//! **When a source asks.** At once, then after 10 ms, with waits that double to half a second, as long as somebody
//! waits. A query names up to 32 topics; more take turns, a query each 10 ms.
//!
//! **How many answer.** The first query asks one receiver in 16, the next one in 8, then 4, 2, and all. From the
//! answers the source learns how many there are, and gives them a millisecond each: the others wait at random within
//! that time. So ten thousand receivers answer at about a thousand a second. A query for no topics
//! takes back what is still to be answered; a source that has what it wants sends one.
//!
//! **When a receiver stops counting.** When its connection ends, where there is one; else when it has not answered
//! four queries to all.
//!
//! **Strangers.** An answer counts only under the number of one of the last queries, for topics of it. A source
//! remembers a bounded number of receivers. A receiver answers a query once, with fewer bytes than the query's packet,
//! and at most two hundred times a second.
//!
//! | promise | test |
//! |---|---|
//! | each receiver is counted once, whatever is lost, doubled or late | `every_receiver_is_counted_once_whatever_the_network_does` |
//! | who leaves is not counted any more | `a_receiver_that_falls_silent_is_not_counted_any_more` |
//! | thousands of receivers do not answer at once | `ten_thousand_receivers_answer_at_a_bounded_rate` |
//! | nobody asks unless somebody waits | `nothing_is_asked_unless_somebody_waits` |
//! | strangers cost bounded memory | `forged_answers_are_refused_and_memory_is_bounded` |

mod answers;
mod packets;
#[cfg(test)]
mod tests;
mod watch;

pub use answers::Answers;
pub use packets::{ANSWER_LEN, Answer, QUERY_LEN_MAX, Query, TOPICS_MAX};
pub use watch::{Taken, Watch};
