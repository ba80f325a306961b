//! Congestion control of LBT-RM, an option of a source: receivers report, the source adapts its data rate.
//!
//! A source with [`CongestionControl::Adaptive`](crate::config::CongestionControl) sends *pulses*: session
//! messages that carry its clock, at least ten times a second while it sends and at most a hundred. A
//! receiver needs no option: it answers pulses with *reports*, NAKs of no numbers that say how many datagrams
//! of a span were missing, how fast the others came, and how long the last pulses had queued on the way.
//!
//! **One receiver governs**, the one with the highest loss: a pulse names it and its loss. It reports at each
//! pulse and shortly after each loss. Another one reports when its own loss is clearly above what the pulse
//! says, after a random wait and ever more seldom while that changes nothing; all others every ten to twenty
//! seconds. So a thousand receivers behind one link are one stream of reports.
//!
//! **The law.** Without loss a rate grows in a second by the root of itself times what two datagrams each round
//! trip would make; where a loss is congestion, or the round trip is as long as configured, it falls by about
//! a tenth, larger rates by more, and all by half of the share that was lost, once for all numbers that were under
//! way. Small rates grow by more of themselves and fall by less, so that the shares of a link meet; all grow less the
//! closer the round trip is to the configured one, and by four times themselves in a second at most, so that
//! many that share a link do not fill its queue before they are told. After a long round trip a rate does not
//! grow until the queue is shorter. A source that begins grows by its own rate each 150 ms until the first such loss, then goes
//! on with what the link delivered. A rate that is not used does not grow.
//!
//! **What is congestion.** Loss at the end of a queue comes when pulses have queued long; loss without any
//! queue, where there is one at other times, is the weather, and is left to NAKs, unless it is an eighth. What is
//! no queue is the shortest way of a minute or two, so that a queue that is never empty does not pass for none.
//!
//! **The floor.** The rate is never below the configured minimum. A receiver that still reports congestion
//! there, five times on end, is named ([`SourceEvent::TooSlow`](crate::rm::SourceEvent)) and has no say for
//! thirty seconds: it is left to its losses, and the others are not held up.
//!
//! Receivers of other make answer no pulses. If nobody has reported for a second, the source goes by the NAKs
//! that come.
//!
//! | promise | test (`tests/flow/congestion.rs`) |
//! |---|---|
//! | sources fill a narrow link, nothing is lost for good | `sources_that_share_a_link_fill_it` |
//! | equal sources get equal shares, also those that begin later | `equal_sources_come_to_equal_shares` |
//! | so it goes on | `a_queue_that_is_short_and_full_does_not_pass_for_none` |
//! | fixed rates waste what congestion control saves | `without_congestion_control_a_link_wastes` |
//! | loss without a queue does not lower the rate | `loss_without_a_queue_does_not_lower_the_rate` |
//! | who is slower than the floor is named, holds up nobody | `below_the_floor_a_receiver_is_named` |
//! | reports do not grow with the number of receivers | `a_hundred_receivers_report_hardly_more_than_one` |

mod controller;
mod packets;
mod reporter;

pub(crate) use controller::{Controller, Verdict};
pub use packets::{PULSE_LEN, Pulse, REPORT_LEN, Report};
pub(crate) use reporter::Reporter;
