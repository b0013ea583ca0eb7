//! Aligned columns.

use unicode_width::UnicodeWidthStr;

use super::{colour, text};

/// Table with a head, which is bold in the alternate form (`{:#}`). Columns are as wide as their widest cell; the last one is never padded.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Whether the first row is a head, or a fact as the others.
    has_head: bool,
    /// Text that is shown if there are no rows below the head.
    instead: Option<&'static str>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self {
            rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()],
            has_head: true,
            instead: None,
        }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds a row to a table of two columns: name and value.
    pub(crate) fn fact(&mut self, what: &str, is: impl Into<String>) {
        self.row(vec![what.to_owned(), is.into()]);
    }

    /// Adds a row as [`Table::fact`] does, unless its value is empty.
    pub(crate) fn fact_if_any(&mut self, what: &str, is: impl AsRef<[u8]>) {
        if !is.as_ref().is_empty() {
            self.fact(what, text::escaped(is.as_ref()));
        }
    }

    /// Shows this instead of the head if there are no rows below it.
    pub(crate) fn or_say(mut self, words: &'static str) -> Self {
        self.instead = Some(words);
        self
    }

    /// Removes the columns without cells below their heads.
    pub(crate) fn without_empty_columns(self) -> Self {
        let filled = |column: usize| {
            let mut below = self.rows.iter().skip(1);
            below.any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()))
        };
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let kept: Vec<bool> = (0..columns).map(filled).collect();
        let keep = |row: &Vec<String>| {
            let cells = row.iter().zip(&kept);
            cells
                .filter(|(_, kept)| **kept)
                .map(|(cell, _)| cell.clone())
                .collect()
        };
        Self {
            rows: self.rows.iter().map(keep).collect(),
            ..self
        }
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let (Some(words), 1) = (self.instead, self.rows.len()) {
            return writeln!(f, "{words}");
        }
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.width()).max().unwrap_or(0)
            })
            .collect();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(cell);
                let padding = width - cell.width() + 2;
                line.extend(std::iter::repeat_n(' ', padding));
            }
            let line = line.trim_end();
            match f.alternate() && number == 0 && self.has_head {
                true => writeln!(f, "{}", colour::styled(line, colour::HEAD))?,
                false => writeln!(f, "{line}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(&str, &str)]) -> Table {
        let mut table = Table::new(&["NAME", "TTL"]);
        for (name, ttl) in rows {
            table.row(vec![(*name).into(), (*ttl).into()]);
        }
        table
    }

    #[test]
    fn columns_line_up() {
        let plain = table(&[("orders/42", "9s"), ("ü", "10s")]);
        let expected = "NAME       TTL\norders/42  9s\nü          10s\n";
        assert_eq!(plain.to_string(), expected);
        // The head is bold in the alternate form.
        let bold = expected.replace("NAME       TTL", "\u{1b}[1mNAME       TTL\u{1b}[0m");
        assert_eq!(format!("{plain:#}"), bold);
        // Two columns each; one column for two characters; none for a joiner.
        let strange = ["注文/42", "e\u{301}te\u{301}", "a\u{200d}b"];
        let [wide, combined, joined] = strange;
        let strange = table(&[(wide, "9s"), (combined, "10s"), (joined, "11s")]);
        let expected =
            "NAME     TTL\n注文/42  9s\ne\u{301}te\u{301}      10s\na\u{200d}b       11s\n";
        assert_eq!(strange.to_string(), expected);
    }

    #[test]
    fn columns_without_anything_in_them_are_left_out() {
        let mut table = Table::new(&["NAME", "ACTOR", "TTL"]);
        table.row(vec!["a".into(), String::new(), "9s".into()]);
        table.row(vec!["b".into(), String::new(), "10s".into()]);
        let table = table.without_empty_columns();
        assert_eq!(table.to_string(), "NAME  TTL\na     9s\nb     10s\n");
    }
}
