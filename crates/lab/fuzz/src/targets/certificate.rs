use net::tls::Validity;

use crate::Outcome;

/// Input: a certificate in DER, or what passes for one. Dates that are read print, and what is cut off in the middle
/// of them is none.
pub(super) fn execute(input: &[u8]) -> Outcome {
    let Some(validity) = Validity::of_certificate(input) else { return Outcome::refused("no dates") };
    let said = format!("{} {}", validity.from, validity.until);
    assert_eq!(said.len(), 2 * "2026-12-31 23:59:59 UTC".len() + 1, "{said}");
    assert!(Validity::of_certificate(&input[..input.len().min(30)]).is_none(), "both dates are behind that");
    let lasts_centuries = validity.until.0 - validity.from.0 > 100 * 366 * 86_400;
    // Numbers do not tell outcomes apart, letters do.
    let length = char::from(b'a' + (input.len() / 64).min(25) as u8);
    Outcome::accepted((validity.from < validity.until, validity.from.0 < 0, lasts_centuries, length))
}
