use std::fmt;

/// A table for people: columns as wide as their widest cell, numbers to the right.
#[derive(Clone, Debug, Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    #[must_use]
    pub fn new(heads: &[&str]) -> Table {
        Table { rows: vec![heads.iter().map(|h| (*h).to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    /// Prints as Markdown, which is readable as it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &Vec<String>, c: usize| row.get(c).cloned().unwrap_or_default();
        let widths: Vec<usize> = (0..columns)
            .map(|c| self.rows.iter().map(|r| cell(r, c).chars().count()).max().unwrap_or(0))
            .collect();
        for (i, row) in self.rows.iter().enumerate() {
            for (c, &width) in widths.iter().enumerate() {
                if c == 0 {
                    write!(f, "| {:<width$} ", cell(row, c))?;
                } else {
                    write!(f, "| {:>width$} ", cell(row, c))?;
                }
            }
            writeln!(f, "|")?;
            if i == 0 {
                for (c, &width) in widths.iter().enumerate() {
                    let dashes = "-".repeat(width + 1);
                    f.write_str(&if c == 0 { format!("|{dashes}-") } else { format!("|{dashes}:") })?;
                }
                writeln!(f, "|")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["rate", "p50"]);
        table.row(["1k".to_owned(), "12.5 us".to_owned()]);
        assert_eq!(table.to_string(), "| rate |     p50 |\n|------|--------:|\n| 1k   | 12.5 us |\n");
    }
}
