//! What is done does not grow with the number of services that there are.

use super::*;

fn name(number: u16) -> String {
    format!("S{number}")
}

impl Bench {
    /// With so many services of one instance, each with its source, and progress reported.
    fn with_services(count: u16) -> Bench {
        let mut bench = Bench::alone();
        let services: Vec<Definition> = (1..=count)
            .map(|id| {
                let mut service = definition(true);
                service.id = id;
                service.info.name = name(id);
                service
            })
            .collect();
        bench.core.on_source(bench.now, DIRECTORY, Topic::Directory, INSTANCE, &mut bench.log);
        bench.directory(DIRECTORY, INSTANCE, &services);
        bench.core.on_link_up(INSTANCE, &mut bench.log);
        bench.link(INSTANCE, &LinkDown::HelloAck { instance: INSTANCE, features: Features::OURS });
        for id in 1..=count {
            bench.find(id);
        }
        bench.core.report_progress(bench.now, &mut bench.log);
        bench.now += Duration::from_millis(100);
        bench
    }

    fn source_of(id: u16) -> SourceId {
        SourceId(u32::from(id) + 10)
    }

    fn find(&mut self, id: u16) {
        let topic = name(id);
        let (source, topic) = (Bench::source_of(id), Topic::Service(&topic));
        self.core.on_source(self.now, source, topic, INSTANCE, &mut self.log);
    }

    fn comes(&mut self, id: u16, sequence: u64) {
        let msg =
            StreamMsg { kind: Kind::Heartbeat, instance: INSTANCE, sequence, item: 0, parts: &[], body: &[] };
        let source = Bench::source_of(id);
        self.core.on_stream_message(self.now, source, &msg.header(), &mut self.log).expect("accepted");
    }

    /// At how many services and sources is looked meanwhile.
    fn looks(&mut self, act: impl FnOnce(&mut Bench)) -> usize {
        let before = self.core.items.sources.looks.count.get();
        act(self);
        self.core.items.sources.looks.count.get() - before
    }
}

/// What a source that is found, one that ends, messages and a report look at, and a service that goes.
fn work(count: u16) -> [usize; 4] {
    let mut bench = Bench::with_services(count);
    assert_eq!(bench.core.services().filter(|(_, _, up, _)| *up).count(), usize::from(count));
    let ends =
        bench.looks(|bench| bench.core.on_source_ended(bench.now, Bench::source_of(7), &mut bench.log));
    let found = bench.looks(|bench| bench.find(7));
    let reported = bench.looks(|bench| {
        for sequence in 1..=5 {
            bench.comes(3, sequence);
            bench.comes(7, sequence);
        }
        bench.took();
        bench.core.report_progress(bench.now, &mut bench.log);
        assert_eq!(bench.took(), ["77: progress [(3, 5), (7, 5)]"]);
    });
    let withdrawn = bench.looks(|bench| bench.core.items.withdraw_service(bench.now, 5, &mut bench.log));
    assert!(bench.core.items.sources.all[Bench::source_of(5).0 as usize].is_none());
    [ends, found, reported, withdrawn]
}

#[test]
fn sources_reports_and_withdrawals_cost_the_same_with_many_services_as_with_few() {
    assert_eq!((work(10), work(2_000)), ([0, 1, 2, 1], [0, 1, 2, 1]));
}

#[test]
fn a_source_whose_number_is_another_service_s_from_now_on_is_none_of_the_first() {
    let mut bench = Bench::with_services(2);
    let topic = name(2);
    bench.core.on_source(bench.now, Bench::source_of(1), Topic::Service(&topic), INSTANCE, &mut bench.log);
    bench.core.on_source_ended(bench.now, Bench::source_of(2), &mut bench.log);
    let from: Vec<_> =
        bench.core.items.sources.services.values().map(|s| (s.sources.len(), s.active_source())).collect();
    assert_eq!(from, [(0, None), (1, Some(Bench::source_of(1)))]);
}
