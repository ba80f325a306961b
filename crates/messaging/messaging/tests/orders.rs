//! Receivers of one context that want one source in different orders.

mod common;

use common::handmade::Handmade;
use common::{Heard, Patience};
use tickcast_messaging::{
    Context, End, Handler, Loss, Message, Order, Receiver, ReceiverOptions, Sqn, StreamId,
};

/// What each of two receivers was told: numbers that were begun with, delivered, lost.
#[derive(Default)]
struct Two {
    told: Vec<(Receiver, String)>,
}

impl Two {
    fn of(&self, receiver: Receiver) -> Vec<&str> {
        self.told.iter().filter(|(r, _)| *r == receiver).map(|(_, what)| what.as_str()).collect()
    }
}

impl Handler for Two {
    fn on_message(&mut self, message: &Message<'_>) {
        self.told.push((message.receiver, message.sqn.0.to_string()));
    }
    fn on_begin(&mut self, receiver: Receiver, _: StreamId, first: Sqn) {
        self.told.push((receiver, format!("begin {}", first.0)));
    }
    fn on_loss(&mut self, receiver: Receiver, _: StreamId, loss: Loss) {
        self.told.push((receiver, format!("lost {} of {}", loss.first.0, loss.count)));
    }
    fn on_end(&mut self, receiver: Receiver, _: StreamId, _: &End) {
        self.told.push((receiver, "end".to_owned()));
    }
}

struct Bench {
    source: Handmade,
    context: Context,
    two: Two,
    patience: Patience,
}

impl Bench {
    fn new(test: u8) -> Bench {
        let source = Handmade::new(test);
        let context = Context::standalone(&source.config(test, "")).expect("loopback is there");
        Bench { source, context, two: Two::default(), patience: Patience::new() }
    }

    fn receiver(&mut self, order: Order) -> Receiver {
        let options = ReceiverOptions { order: Some(order), ..ReceiverOptions::default() };
        self.context.create_receiver("px", &options).expect("a legal name")
    }

    fn until(&mut self, mut done: impl FnMut(&Two) -> bool) {
        while !done(&self.two) {
            assert!(self.patience.lasts(), "hangs: {:?}", self.two.told);
            self.context.wait(Some(std::time::Duration::from_millis(1)), &mut self.two).expect("it works");
        }
    }
}

#[test]
fn a_receiver_in_topic_order_sees_no_disorder_though_another_takes_what_arrives() {
    let mut b = Bench::new(90);
    let arrival = b.receiver(Order::Arrival);
    for (sqn, number) in [(0, 0), (1, 1), (3, 3)] {
        b.source.data(sqn, number);
    }
    b.until(|two| two.told.len() == 4);
    let topic = b.receiver(Order::Topic);
    for (sqn, number) in [(5, 5), (2, 2), (6, 6), (4, 4), (7, 7)] {
        b.source.data(sqn, number);
    }
    b.until(|two| two.of(topic).len() == 5 && two.of(arrival).len() == 9);
    assert_eq!(b.two.of(topic), ["begin 4", "4", "5", "6", "7"]);
    assert_eq!(b.two.of(arrival), ["begin 0", "0", "1", "3", "2", "4", "5", "6", "7"]);
}

#[test]
fn a_receiver_in_order_of_arrival_that_joins_one_in_topic_order_gets_that() {
    let mut b = Bench::new(91);
    let topic = b.receiver(Order::Topic);
    b.source.data(0, 0);
    b.until(|two| two.told.len() == 2);
    let arrival = b.receiver(Order::Arrival);
    for (sqn, number) in [(2, 2), (1, 1), (3, 3)] {
        b.source.data(sqn, number);
    }
    b.until(|two| two.of(topic).len() == 5 && two.of(arrival).len() == 4);
    assert_eq!(b.two.of(topic), ["begin 0", "0", "1", "2", "3"]);
    assert_eq!(b.two.of(arrival), ["begin 1", "1", "2", "3"]);
}

/// The first thing that a receiver hears of a stream may be a loss.
#[test]
fn a_receiver_that_joins_before_a_loss_is_told_of_the_begin_first() {
    let source = Handmade::new(92);
    let config = source.config(92, "lbtrm.nak_generation_interval_us = 50_000\n");
    let mut context = Context::standalone(&config).expect("loopback is there");
    let mut heard = Heard::default();
    let patience = Patience::new();
    context.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
    source.data(0, 0);
    while heard.payloads.is_empty() {
        assert!(patience.lasts(), "hangs");
        context.wait(Some(std::time::Duration::from_millis(1)), &mut heard).expect("it works");
    }
    context.create_receiver("px", &ReceiverOptions::default()).expect("a legal name");
    source.data(2, 2);
    while heard.payloads.len() < 3 {
        assert!(patience.lasts(), "hangs");
        context.wait(Some(std::time::Duration::from_millis(1)), &mut heard).expect("it works");
    }
    assert_eq!(heard.lost, 2, "each is told");
}
