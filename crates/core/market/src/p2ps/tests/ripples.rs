//! Old values that move to the fields that theirs ripple to.

use super::*;

/// The image that a late client gets after one update, with 22 rippling to 25 and that to 26, which the item has
/// not.
fn image(unrippled: &[&str]) -> Vec<String> {
    let mut bench = Bench::running();
    bench
        .core
        .reconfigure(|config| config.unrippled = unrippled.iter().map(|&name| name.to_owned()).collect());
    bench.core.items.rules.set_ripple(22, 25);
    bench.core.items.rules.set_ripple(25, 26);
    bench.request(A, 5, "IBM");
    bench.open(1, 1, "IBM");
    bench.image(1, 1, "IBM", &[(22, 1), (25, 7)]);
    bench.stream(Kind::Update, 2, 1, &update(&[(22, 2)]));
    bench.took();
    bench.request(B, 9, "IBM");
    bench.took()
}

#[test]
fn a_ripple_reaches_only_fields_that_the_image_has() {
    assert_eq!(image(&[]), ["2/9: refresh ok solicited 22=2 25=1"]);
}

#[test]
fn nothing_ripples_in_a_service_that_is_to_have_none() {
    assert_eq!(image(&["BINANCE"]), ["2/9: refresh ok solicited 22=2 25=7"]);
    assert_eq!(image(&["OTHER"]), ["2/9: refresh ok solicited 22=2 25=1"]);
}
