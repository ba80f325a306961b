//! Everything a run draws from its seed, in one value that is printed when the run fails.

use crate::ends::Transport;
use crate::network::LinkPlan;
use std::time::Duration;
use tickcast_lbt::config::{NakLaw, Order, ReceiverConfig, SourceConfig};
use units::{Nanos, Rng, Sqn};

pub(crate) const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) transport: Transport,
    pub(crate) source: SourceConfig,
    pub(crate) nodes: Vec<NodePlan>,
    /// From the source to each node, then from each node to the source.
    pub(crate) links: Vec<LinkPlan>,
    pub(crate) topics: u32,
    /// Bursts of messages: when, how many.
    pub(crate) bursts: Vec<(Nanos, u32)>,
    pub(crate) longest: usize,
    /// When the source crashes and another session takes its place.
    pub(crate) crash: Option<Nanos>,
    /// When the source stands still.
    pub(crate) stall: Option<(Nanos, Nanos)>,
    /// When faults stop.
    pub(crate) heal: Nanos,
    pub(crate) first_sqn: Sqn,
}

#[derive(Clone, Debug)]
pub(crate) struct NodePlan {
    pub(crate) config: ReceiverConfig,
    pub(crate) order: Order,
    /// When the node begins to listen, and when it subscribes to the topics with odd numbers.
    pub(crate) joins: Nanos,
    pub(crate) subscribes_rest: Nanos,
    /// When it stands still; what arrives meanwhile waits in a buffer.
    pub(crate) stall: Option<(Nanos, Nanos)>,
    /// When it is gone without a word.
    pub(crate) dies: Nanos,
}

/// A stretch of up to 100 ms.
fn pause(rng: &mut Rng, length: Duration) -> (Nanos, Nanos) {
    let from = at(rng, length);
    (from, from + Duration::from_nanos(rng.below(100_000_000)))
}

fn at(rng: &mut Rng, span: Duration) -> Nanos {
    Nanos(rng.below(span.as_nanos() as u64))
}

/// Which faults a plan may draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// Everything at once, up to 30 % loss.
    Foul,
    /// 5 % independent loss in both directions, reordering, duplicates; nodes from the start.
    Rainy,
    /// No faults.
    Fair,
}

impl Plan {
    pub(crate) fn draw(seed: u64, weather: Weather) -> Plan {
        // of two neighbours each gives one transport the same weather
        let mut rng = Rng::new(seed / 2);
        let foul = weather == Weather::Foul;
        let transport = if seed.is_multiple_of(2) { Transport::Lbtrm } else { Transport::Lbtru };
        let length = MS * 400;
        let node_count = 1 + rng.below(4) as usize;
        let nodes = (0..node_count).map(|_| NodePlan::draw(&mut rng, length, weather)).collect();
        let mut links: Vec<_> = (0..2 * node_count).map(|_| draw_link(&mut rng, length, weather)).collect();
        if foul && rng.chance(0.2) {
            // nothing passes either way
            let (node, cut) = (rng.below(node_count as u64) as usize, pause(&mut rng, length));
            links[node].partitions.push(cut);
            links[node_count + node].partitions.push(cut);
        }
        let bursts = (0..10 + rng.below(120)).map(|_| (at(&mut rng, length), 1 + rng.below(40) as u32));
        let mut bursts: Vec<_> = bursts.collect();
        bursts.sort();
        Plan {
            seed,
            transport,
            source: draw_source(&mut rng, foul),
            nodes,
            links,
            topics: 1 + rng.below(6) as u32,
            bursts,
            longest: if rng.chance(0.5) { 300 } else { 9_000 },
            crash: (foul && rng.chance(0.25)).then(|| at(&mut rng, length)),
            stall: (foul && rng.chance(0.15)).then(|| pause(&mut rng, length)),
            heal: Nanos::ZERO + length,
            first_sqn: if rng.chance(0.3) { Sqn(0u32.wrapping_sub(rng.below(300) as u32)) } else { Sqn(0) },
        }
    }
}

impl NodePlan {
    fn draw(rng: &mut Rng, length: Duration, weather: Weather) -> NodePlan {
        let late = weather == Weather::Foul && rng.chance(0.3);
        let joins = if late { at(rng, length) } else { Nanos::ZERO };
        let mut config = ReceiverConfig {
            nak_law: match rng.below(3) {
                0 => NakLaw::Fixed,
                1 => NakLaw::Uniform,
                _ => NakLaw::Weighted { group_size: 4 },
            },
            late_start: rng.chance(0.2),
            ..ReceiverConfig::default()
        };
        if weather == Weather::Foul {
            config.send_naks = rng.chance(0.9);
            if rng.chance(0.3) {
                config.nak_generation_interval = MS * 40;
            }
            if rng.chance(0.2) {
                config.maximum_missing = 20 + rng.below(100) as u32;
                config.maximum_gaps = 4 + rng.below(20) as u32;
            }
            if rng.chance(0.2) {
                config.delivery.hold_maximum_bytes = 256 << 10;
                config.delivery.delivery_control_maximum_total_map_entries = 8_192;
            }
        }
        NodePlan {
            config,
            order: if rng.chance(0.25) { Order::Arrival } else { Order::Topic },
            joins,
            stall: (weather == Weather::Foul && rng.chance(0.25)).then(|| pause(rng, length)),
            dies: if weather == Weather::Foul && rng.chance(0.1) { at(rng, length) } else { Nanos::NEVER },
            subscribes_rest: if rng.chance(0.3) { joins.max(at(rng, length)) } else { joins },
        }
    }
}

fn draw_link(rng: &mut Rng, length: Duration, weather: Weather) -> LinkPlan {
    let mut plan = LinkPlan::perfect(20_000 + rng.below(300_000));
    match weather {
        Weather::Fair => return plan,
        Weather::Rainy => plan.loss = 0.05,
        Weather::Foul => {
            plan.loss = rng.unit() * 0.3;
            if rng.chance(0.4) {
                plan.to_bad = rng.unit() * 0.05;
                plan.to_good = 0.02 + rng.unit() * 0.5;
                plan.loss_bad = 0.5 + rng.unit() * 0.5;
            }
            if rng.chance(0.3) {
                plan.corrupt = rng.unit() * 0.03;
            }
            if rng.chance(0.3) {
                plan.partitions.push(pause(rng, length));
            }
        }
    }
    plan.duplicate = rng.unit() * 0.1;
    plan.reorder = rng.unit() * 0.1;
    plan.reorder_ns = rng.below(3_000_000);
    plan.jitter_ns = rng.below(200_000);
    plan
}

fn draw_source(rng: &mut Rng, foul: bool) -> SourceConfig {
    let mut config = SourceConfig::default();
    if rng.chance(0.3) {
        config.datagram_max_size = 500 + rng.below(8_500) as u32;
    }
    if rng.chance(0.3) {
        config.implicit_batching_minimum_length = 1 + rng.below(3_000) as u32;
        config.implicit_batching_interval = MS * 2;
    }
    config.maximum_message_size = 16 << 10;
    config.transmission_window_size = 8 << 20;
    if foul {
        if rng.chance(0.3) {
            config.retransmit_rate_limit = 2_000_000;
            config.retransmit_queue_maximum = 50;
        }
        if rng.chance(0.1) {
            config.retransmit_rate_limit = 0;
        }
        if rng.chance(0.2) {
            config.transmission_window_size = 128 << 10;
            config.transport_session_maximum_buffer = 32 << 10;
        }
    }
    config
}
