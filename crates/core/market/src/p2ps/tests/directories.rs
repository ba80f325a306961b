//! Streams of the source directory.

use super::*;
use crate::p2ps::directory::DIRECTORY_STREAMS_MAX;

#[test]
fn a_client_has_a_limited_number_of_directory_streams() {
    let mut bench = Bench::watching();
    let ask = |bench: &mut Bench, stream_id: i32| {
        bench.client(B, &DirectoryRequest::all(stream_id).to_vec().expect("legal"));
        bench.took().pop().expect("an answer")
    };
    let first = 100;
    let beyond = first + DIRECTORY_STREAMS_MAX as i32;
    for stream_id in first..beyond {
        assert!(ask(&mut bench, stream_id).contains("refresh ok"));
    }
    let text = "too many streams of the source directory on this connection";
    assert_eq!(
        ask(&mut bench, beyond),
        format!("2/{beyond}: status closed suspect: {text} source directory")
    );
    assert_eq!(bench.counters.requests_refused.get(), 1);
    assert!(ask(&mut bench, first).contains("refresh ok"), "one that is open may be asked for again");
    let close = CloseMsg::new(Domain::SOURCE, first, DataType::NO_DATA);
    bench.client(B, &Msg::Close(close).to_vec().expect("legal"));
    assert!(ask(&mut bench, beyond).contains("refresh ok"), "there is room again");
}
