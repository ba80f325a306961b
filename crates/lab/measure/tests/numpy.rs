//! Statistics equal NumPy's on the same samples, which it reads from the file that the analysis writes.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Files, at_rate, head};
use tickcast_measure::analysis::Options;
use units::Rng;

/// A Python with NumPy: that of the tests of the Python package, or the system's.
fn python() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .map(|target| target.join("python-package/bin/python"));
    let found = target.into_iter().chain([PathBuf::from("python3")]);
    found.into_iter().find(|python| {
        Command::new(python).args(["-c", "import numpy"]).output().is_ok_and(|tried| tried.status.success())
    })
}

const PROGRAM: &str = "
import json, sys, numpy
rows = numpy.load(sys.argv[1])
ns = rows['latency_ns']
shares = dict(p50=0.5, p90=0.9, p99=0.99, **{'p99.9': 0.999, 'p99.99': 0.9999, 'p99.999': 0.99999, 'p99.9999': 0.999999})
edges = numpy.arange(0, ns.max() + 20000, 10000)
counts, begins = numpy.histogram(ns, edges)
print(json.dumps(dict(
    count=len(ns), mean_ns=float(ns.mean()), deviation_ns=float(ns.std()), min_ns=int(ns.min()), max_ns=int(ns.max()),
    percentiles_ns={name: float(numpy.quantile(ns, share)) for name, share in shares.items()},
    buckets=[[int(begin), int(count)] for begin, count in zip(begins, counts) if count],
    ids=bool((rows['id'] == numpy.arange(len(rows))).all()), first=int(rows['sent_ns'][0]))))
";

#[test]
fn statistics_are_numpys_on_the_same_samples() {
    let _repeat = testkit::repeat!();
    let Some(python) = python() else {
        eprintln!("skipped: no Python with NumPy");
        return;
    };
    let mut rng = Rng::new(21);
    let files = Files::new();
    let sent = at_rate(0, 1_100_000, 2_000);
    // Most are near 30 us, a few far away, so that every percentile is another number.
    let delay =
        |word: u64| 25_000 + word % 9_973 + if word.is_multiple_of(997) { word % 3_000_017 } else { 0 };
    files.add(&head("in"), &sent);
    files.add(
        &head("out"),
        &sent.iter().map(|(id, at)| (*id, at + delay(rng.next_u64()))).collect::<Vec<_>>(),
    );
    let samples = files.folder.join("samples.npy");
    // With so little memory latencies are sorted on disk.
    let options = Options { samples: Some(samples.clone()), memory_bytes: 6 << 20, ..Options::default() };
    let analysis = files.analyse(&options);
    let ours =
        serde_json::to_value(analysis.pairs[0].latency.as_ref().expect("one clock")).expect("it is JSON");

    let output = Command::new(python).arg("-c").arg(PROGRAM).arg(&samples).output().expect("it was found");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let numpy: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a line of JSON");
    assert_eq!((&numpy["ids"], &numpy["first"]), (&true.into(), &sent[0].1.into()));
    for exact in ["count", "min_ns", "max_ns", "buckets", "percentiles_ns"] {
        assert_eq!(ours[exact], numpy[exact], "{exact}");
    }
    for (name, digits) in [("mean_ns", 1e-14), ("deviation_ns", 1e-12)] {
        let [own, other] = [&ours[name], &numpy[name]].map(|value| value.as_f64().expect("a number"));
        assert!((own / other - 1.0).abs() < digits, "{name}: {own} {other}");
    }
}

#[test]
fn samples_are_rows_of_text_under_any_other_name() {
    let files = Files::new();
    let sent = at_rate(0, 3, 1_000);
    files.add(&head("in"), &sent);
    files.add(&head("out"), &sent.iter().map(|(id, at)| (*id, at + 10 + id)).collect::<Vec<_>>());
    let samples = files.folder.join("samples.csv");
    files.analyse(&Options { samples: Some(samples.clone()), ..Options::default() });
    let text = std::fs::read_to_string(&samples).expect("written");
    let at = sent[0].1;
    let rows = format!("id,sent_ns,latency_ns\n0,{at},10\n1,{},11\n2,{},12\n", at + 1_000, at + 2_000);
    assert_eq!(text, rows);
    let unfinished = std::fs::read_dir(&*files.folder).expect("there").count();
    assert_eq!(unfinished, 3, "two files and the samples");
}
