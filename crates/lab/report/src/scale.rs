//! Where values lie on an axis, and which of them are named there.

/// How an axis counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Logarithmic,
}

/// An axis from its lowest to its highest value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Span {
    /// The axis for these values. On a logarithmic one, what is not above 0 lies at the low end.
    pub(crate) fn of(scale: Scale, values: impl IntoIterator<Item = f64>) -> Span {
        let usable = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let ends = values.into_iter().filter(usable).fold(None, |ends: Option<(f64, f64)>, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let (low, high) = ends.unwrap_or((1.0, 10.0));
        match scale {
            Scale::Linear => {
                Span { scale, low: low.min(0.0), high: if high > low.min(0.0) { high } else { 1.0 } }
            }
            Scale::Logarithmic if high / low < 1.5 => Span { scale, low: low / 1.3, high: high * 1.3 },
            Scale::Logarithmic => Span { scale, low, high },
        }
    }

    /// Where a value lies, from 0 to 1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Round values on the axis, at most about this many.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        match self.scale {
            Scale::Linear => self.steps(most),
            Scale::Logarithmic => self.decades(most),
        }
    }

    fn steps(&self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most as f64;
        let decade = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * decade);
        let first = (self.low / step).ceil() as i64;
        (first..)
            .map(|n| n as f64 * step)
            .take_while(|tick| *tick <= self.high * 1.000_001)
            .take(50)
            .collect()
    }

    fn decades(&self, most: usize) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let within = |tick: &f64| *tick >= self.low * 0.999_999 && *tick <= self.high * 1.000_001;
        let of = |steps: &[f64]| -> Vec<f64> {
            let decade = |power: i32| steps.iter().map(move |step| step * 10f64.powi(power));
            (first..=last).flat_map(decade).filter(within).collect()
        };
        // As many as there is room for; of too many decades, every so many.
        let candidates = [of(&[1.0, 2.0, 3.0, 5.0, 7.0]), of(&[1.0, 2.0, 5.0]), of(&[1.0, 3.0]), of(&[1.0])];
        let fits = candidates.iter().find(|ticks| ticks.len() <= most);
        fits.cloned().unwrap_or_else(|| {
            let all = &candidates[3];
            all.iter().copied().step_by(all.len().div_ceil(most.max(1))).collect()
        })
    }
}

/// A number with as many digits as it needs: `0.05`, `4.1`, `25,000`, `2.66 M`.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".to_owned(),
        _ if size == 0.0 => "0".to_owned(),
        _ if size >= 1e9 => trimmed(value / 1e9, 2) + " G",
        _ if size >= 1e6 => trimmed(value / 1e6, 2) + " M",
        _ if size >= 1_000.0 => thousands(value.round() as i64),
        _ if size >= 100.0 => trimmed(value, 0),
        _ if size >= 10.0 => trimmed(value, 1),
        _ if size >= 1.0 => trimmed(value, 2),
        _ => trimmed(value, 3),
    }
}

fn trimmed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn thousands(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_between_the_ends() {
        let log = Span::of(Scale::Logarithmic, [1_000.0, 10.0, 0.0, f64::NAN]);
        assert_eq!([10.0, 100.0, 1_000.0, 0.0, 1e9].map(|value| log.place(value)), [0.0, 0.5, 1.0, 0.0, 1.0]);
        let linear = Span::of(Scale::Linear, [4.0, 8.0]);
        assert_eq!([0.0, 4.0, 8.0, f64::NAN].map(|value| linear.place(value)), [0.0, 0.5, 1.0, 0.0]);
        for scale in [Scale::Linear, Scale::Logarithmic] {
            assert!(Span::of(scale, []).place(5.0).is_finite());
            assert!(Span::of(scale, [7.0]).place(7.0).is_finite());
        }
    }

    #[test]
    fn ticks_are_round_and_not_too_many() {
        assert_eq!(Span::of(Scale::Linear, [0.0, 10.0]).ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(Span::of(Scale::Logarithmic, [90.0, 1_100.0]).ticks(5), [100.0, 200.0, 500.0, 1_000.0]);
        assert_eq!(Span::of(Scale::Logarithmic, [1.0, 1e9]).ticks(5).len(), 5);
        for values in [[1e-12, 1e15], [3.0, 3.0], [0.0, 1e-9]] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                let ticks = Span::of(scale, values).ticks(6);
                assert!(
                    ticks.len() <= 8 && ticks.iter().all(|tick| tick.is_finite()),
                    "{values:?} {ticks:?}"
                );
            }
        }
    }

    #[test]
    fn numbers_have_the_digits_that_they_need() {
        let cases = [
            (0.0, "0"),
            (0.0625, "0.062"),
            (4.1, "4.1"),
            (12.34, "12.3"),
            (100.4, "100"),
            (999.9, "1000"),
            (25_000.0, "25,000"),
            (-1_234.0, "-1,234"),
            (2_660_000.0, "2.66 M"),
            (1e10, "10 G"),
            (f64::NAN, "-"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
