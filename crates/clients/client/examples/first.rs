//! The first consumer: prints all that happens, until nothing has come for a minute: `first [HOST:PORT [SERVICE
//! [ITEM]]]`.

use std::error::Error;
use std::time::Duration;

use tickcast_client::Consumer;

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let or = |at: usize, usual: &'static str| given.get(at).map_or(usual, String::as_str);
    let mut consumer = Consumer::connect(or(0, "localhost:14002"))?;
    consumer.subscribe(or(1, "BINANCE"), or(2, "BTCUSDT"))?;
    for event in consumer.events(Duration::from_secs(60)) {
        println!("{}", event?);
    }
    Ok(())
}
