//! How long it takes to index a JSON message of a WebSocket client: by `rwf-json`, simd-json and sonic-rs, in one
//! run. `cargo run --release --manifest-path crates/lab/peers/Cargo.toml -p json-peer`; docs/decisions/0011-libraries.md says what
//! follows from it.

#[allow(dead_code)]
#[path = "../../../../wire/rwf-json/src/json/mod.rs"]
mod json;

use std::hint::black_box;
use std::time::Instant;

const REQUEST: &str = r#"{"ID":2,"Key":{"Name":["BTCUSDT","ETHUSDT","XRPUSDT","SOLUSDT"],"Service":"BINANCE"},"View":["BID","ASK","TRDPRC_1"]}"#;
const POST: &str = r#"{"ID":5,"Type":"Post","PostID":1,"Ack":true,"Key":{"Service":"BINANCE","Name":"BTCUSDT"},"Message":{"ID":0,"Type":"Update","Fields":{"BID":63211.07,"ASK":63211.08,"BIDSIZE":12.5,"ASKSIZE":3.25,"QUOTIM":"12:31:05.123","PRCTCK_1":"\u21e7"}}}"#;
const LEVELS: u32 = 400;
const RUNS: usize = 7;
const CALLS: u32 = 5000;

fn main() {
    let levels: Vec<String> = (0..LEVELS)
        .map(|i| {
            format!(r#"{{"Action":"Add","Key":"NjMyMTEuMDc{i}","Fields":{{"ORDER_PRC":63{i}.07,"ORDER_SIDE":"BID","ACC_SIZE":{i}.5}}}}"#)
        })
        .collect();
    let head = r#"{"ID":7,"Type":"Refresh","Domain":"MarketByPrice","Map":{"KeyType":"Buffer","Entries":["#;
    let book = format!("{head}{}]}}}}", levels.join(","));
    println!(
        "{:<22} {:>6} {:>10} {:>10} {:>10}",
        "ns, median of 7 runs", "bytes", "rwf-json", "simd-json", "sonic-rs"
    );
    for (name, text) in [("request", REQUEST), ("post", POST), ("book of 400 levels", &book)] {
        let mut tape = json::Tape::default();
        let own = median_ns(|| {
            assert!(tape.read(text.as_bytes()).is_ok());
            black_box(&tape);
        });
        // simd-json writes into its input, so that each call needs a copy, as each message would.
        let (mut copy, mut buffers) = (Vec::new(), simd_json::Buffers::default());
        let simd = median_ns(|| {
            copy.clear();
            copy.extend_from_slice(text.as_bytes());
            black_box(&simd_json::to_tape_with_buffers(&mut copy, &mut buffers).expect("JSON"));
        });
        let sonic = median_ns(|| {
            black_box(&sonic_rs::from_slice::<sonic_rs::Value>(text.as_bytes()).expect("JSON"));
        });
        println!("{name:<22} {:>6} {own:>10.0} {simd:>10.0} {sonic:>10.0}", text.len());
    }
}

/// The time of one call, in nanoseconds.
fn median_ns(mut call: impl FnMut()) -> f64 {
    let mut runs: Vec<f64> = (0..RUNS)
        .map(|_| {
            let begun = Instant::now();
            (0..CALLS).for_each(|_| call());
            begun.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[RUNS / 2]
}
