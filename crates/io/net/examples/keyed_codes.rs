//! What the keyed code of a datagram costs: nanoseconds for each, the best of many rounds.
//!
//! ```text
//! cargo run --release -p tickcast-net --example keyed_codes
//! ```

use std::hint::black_box;
use std::time::Instant;

use tickcast_net::authentication::HmacSha256;

const ROUNDS: u32 = 200;
const DATAGRAMS: u32 = 100;

fn main() {
    let mac = HmacSha256::new(&[7; 32]);
    for bytes in [64, 256, 1_472, 8_972] {
        let datagram = vec![1u8; bytes];
        let mut best = f64::MAX;
        for _ in 0..ROUNDS {
            let begin = Instant::now();
            for _ in 0..DATAGRAMS {
                black_box(mac.code(&[&[10, 0, 0, 1], black_box(&datagram)]));
            }
            best = best.min(begin.elapsed().as_nanos() as f64 / f64::from(DATAGRAMS));
        }
        println!("{bytes:>5} bytes  {best:>7.0} ns");
    }
}
