//! Instances hear how far their streams are taken.

use super::*;

impl Bench {
    fn reports(&mut self) -> Vec<String> {
        self.core.report_progress(self.now, &mut self.log);
        self.took()
    }
}

#[test]
fn what_was_taken_is_reported_once_and_not_more_often_than_the_interval() {
    let mut bench = Bench::watching();
    assert_eq!(bench.core.next_report(), Nanos::ZERO);
    assert_eq!(bench.reports(), ["77: progress [(1, 1)]"]);
    assert_eq!((bench.core.next_report(), bench.reports()), (Nanos::NEVER, vec![]), "nothing has come since");
    for sequence in 2..=9 {
        bench.stream(Kind::Update, sequence, 1, &update(&[(22, 2)]));
    }
    bench.took();
    assert_eq!(bench.reports(), [""; 0]);
    assert_eq!(bench.core.next_report(), bench.now + Duration::from_millis(20));
    bench.now += Duration::from_millis(20);
    assert_eq!(bench.reports(), ["77: progress [(1, 9)]"]);
    assert_eq!(bench.counters.progress_out.get(), 2);
}

#[test]
fn a_heartbeat_makes_up_for_a_report_that_was_lost_and_a_gap_counts_as_taken() {
    let mut bench = Bench::watching();
    bench.reports();
    bench.now += Duration::from_millis(250);
    bench.stream(Kind::Heartbeat, 1, 0, &[]);
    assert_eq!(bench.reports(), ["77: progress [(1, 1)]"]);
    bench.now += Duration::from_millis(250);
    bench.stream(Kind::Update, 8, 1, &update(&[(22, 2)]));
    bench.took();
    assert_eq!(bench.reports(), ["77: progress [(1, 8)]"], "what is lost is not waited for");
}

#[test]
fn an_instance_of_which_nothing_comes_any_more_hears_that_and_one_that_knows_of_no_reports_hears_nothing() {
    let mut bench = Bench::watching();
    bench.after(Duration::from_secs(2));
    let log = bench.took();
    assert!(log.iter().any(|line| *line == format!("77: progress [(1, {})]", u64::MAX)), "silent: {log:?}");
    let mut bench = Bench::alone();
    bench.find_instance(DIRECTORY, STREAM, INSTANCE, true);
    bench.link(INSTANCE, &LinkDown::HelloAck { instance: INSTANCE, features: Features(3) });
    bench.took();
    bench.stream(Kind::Heartbeat, 1, 0, &[]);
    assert_eq!(bench.reports(), [""; 0]);
    bench.core.on_source_ended(bench.now, STREAM, &mut bench.log);
    assert_eq!(bench.took(), [""; 0]);
}
