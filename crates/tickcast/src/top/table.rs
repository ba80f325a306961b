//! Tables that fit a width: columns that matter less are left out where there is no room.

/// A column.
pub(super) struct Column {
    pub(super) title: &'static str,
    /// Numbers stand at the right.
    pub(super) is_number: bool,
    /// Those with less are left out first.
    pub(super) weight: u8,
    /// Most characters.
    pub(super) max: usize,
}

pub(super) const fn text(title: &'static str, weight: u8, max: usize) -> Column {
    Column { title, is_number: false, weight, max }
}

pub(super) const fn number(title: &'static str, weight: u8) -> Column {
    Column { title, is_number: true, weight, max: 16 }
}

const GAP: usize = 2;
/// So much of the last column has to be seen.
const LAST: usize = 10;

/// The head of a table and its rows, a line each, of at most `width` characters where columns can be left out for it.
pub(super) fn lines(columns: &[Column], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let width_of = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count());
        cells.chain([columns[at].title.chars().count()]).max().unwrap_or(0).min(columns[at].max)
    };
    let mut kept: Vec<(usize, usize)> = (0..columns.len()).map(|at| (at, width_of(at))).collect();
    // A long last column is rather cut than left out.
    let needed =
        |(at, width): &(usize, usize)| if at + 1 == columns.len() { (*width).min(LAST) } else { *width };
    let total =
        |kept: &[(usize, usize)]| kept.iter().map(|one| needed(one) + GAP).sum::<usize>().saturating_sub(GAP);
    while kept.len() > 1 && total(&kept) > width {
        let Some(least) = (0..kept.len()).min_by_key(|at| columns[kept[*at].0].weight) else { break };
        kept.remove(least);
    }
    let line = |cell: &dyn Fn(usize) -> String| {
        let cells = kept.iter().map(|(at, width)| {
            let cell: String = cell(*at).chars().take(*width).collect();
            if columns[*at].is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        cells.collect::<Vec<String>>().join("  ").trim_end().to_owned()
    };
    let head = line(&|at| columns[at].title.to_owned());
    let body = rows.iter().map(|row| line(&|at| row.get(at).cloned().unwrap_or_default()));
    std::iter::once(head).chain(body).collect()
}

/// A number of bytes for people.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..1_024 => count.to_string(),
        1_024..1_048_576 => format!("{:.1}K", count as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1}M", count as f64 / 1_048_576.0),
        _ => format!("{:.1}G", count as f64 / 1_073_741_824.0),
    }
}

/// A rate for people; a dash if it is not known.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => "-".to_owned(),
        Some(rate) if rate < 9.95 => format!("{rate:.1}"),
        Some(rate) => format!("{rate:.0}"),
    }
}

/// A span for people.
pub(super) fn span(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..100 => format!("{s}s"),
        100..6_000 => format!("{}m{:02}s", s / 60, s % 60),
        6_000..360_000 => format!("{}h{:02}m", s / 3600, s / 60 % 60),
        _ => format!("{}d{:02}h", s / 86_400, s / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_matter_least_are_left_out_where_there_is_no_room() {
        let columns = [text("NAME", 3, 8), number("A", 2), text("WHERE", 1, 20)];
        let rows = vec![vec!["x".to_owned(), "123".to_owned(), "far away".to_owned()]];
        assert_eq!(lines(&columns, &rows, 40), ["NAME    A  WHERE", "x     123  far away"]);
        assert_eq!(lines(&columns, &rows, 16), ["NAME    A", "x     123"]);
        assert_eq!(lines(&columns, &rows, 8), ["NAME", "x"]);
        let wide = vec![vec!["x".to_owned(), "1".to_owned(), "a long text".to_owned()]];
        assert_eq!(lines(&columns, &wide, 19), ["NAME  A  WHERE", "x     1  a long text"], "to be cut");
        let long = vec![vec!["a name too long".to_owned()]];
        assert_eq!(lines(&columns[..1], &long, 80), ["NAME", "a name t"]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0, 1_023, 1_536, 5_242_880, 3 << 30].map(bytes), ["0", "1023", "1.5K", "5.0M", "3.0G"]);
        assert_eq!(
            [None, Some(0.04), Some(9.94), Some(9.96), Some(12_345.6)].map(rate),
            ["-", "0.0", "9.9", "10", "12346"]
        );
        let spans = [0, 99_999, 100_000, 93_784_000, 864_000_000].map(span);
        assert_eq!(spans, ["0s", "99s", "1m40s", "26h03m", "10d00h"]);
    }
}
