//! Formats text in columns.

/// Returns lines in which every column is as wide as its widest cell; columns marked in `right` are right-aligned, all
/// others left-aligned.
pub(super) fn lines<const N: usize>(rows: &[[String; N]], right: [bool; N]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).zip(right).map(|((cell, width), right)| match right {
            true => format!("{cell:>width$}"),
            false => format!("{cell:<width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let rows = [["name", "items"], ["a", "1,000"], ["longer", "2"]].map(|row| row.map(str::to_owned));
        assert_eq!(lines(&rows, [false, true]), ["name    items", "a       1,000", "longer      2"]);
    }
}
