//! Log files in bsuite's format.

use super::LogRow;
use crate::error::{EnvError, Mismatch};

const COLUMNS: [&str; 5] = ["steps", "episode", "total_return", "episode_len", "episode_return"];

/// Returns the rows as text: a line with the names of the first row's columns, followed by one line per row.
#[must_use]
pub fn write_csv(rows: &[LogRow]) -> String {
    let totals = rows.first().map_or(&[][..], |row| &row.totals);
    let names: Vec<&str> = COLUMNS.into_iter().chain(totals.iter().map(|(name, _)| name.as_str())).collect();
    let mut text = names.join(",") + "\n";
    for row in rows {
        let LogRow { steps, episode, total_return, episode_len, episode_return, totals } = row;
        text += &format!("{steps},{episode},{total_return:?},{episode_len},{episode_return:?}");
        totals.iter().for_each(|(_, value)| text += &format!(",{value:?}"));
        text.push('\n');
    }
    text
}

/// Reads the output of [`write_csv`] or of bsuite. Columns are identified by name.
///
/// # Errors
/// [`EnvError::Setting`] with the line if a column or a number is missing.
pub fn read_csv(text: &str) -> Result<Vec<LogRow>, EnvError> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    for column in COLUMNS {
        if !names.contains(&column) {
            let expected = format_args!("a column {column}");
            return Err(EnvError::Setting(Mismatch::boxed("line 1", expected, names.join(","))));
        }
    }
    lines.zip(2..).map(|(line, number)| read_row(&names, line, number)).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are whole and positive")]
fn read_row(names: &[&str], line: &str, number: usize) -> Result<LogRow, EnvError> {
    let wrong = || {
        let expected = format_args!("{} numbers", names.len());
        EnvError::Setting(Mismatch::boxed(format_args!("line {number}"), expected, line))
    };
    let values: Vec<f64> =
        line.split(',').map(|field| field.trim().parse().ok()).collect::<Option<_>>().ok_or_else(wrong)?;
    if values.len() != names.len() {
        return Err(wrong());
    }
    let mut row = LogRow::default();
    for (name, value) in names.iter().zip(values) {
        match *name {
            "steps" => row.steps = value as u64,
            "episode" => row.episode = value as u64,
            "total_return" => row.total_return = value,
            "episode_len" => row.episode_len = value as u64,
            "episode_return" => row.episode_return = value,
            total => row.totals.push((total.to_owned(), value)),
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_logs_round_trip() {
        let totals = vec![("raw_return".to_owned(), -0.1), ("best_episode".to_owned(), 1e21)];
        let row = LogRow {
            steps: 90,
            episode: 10,
            total_return: -3.0,
            episode_len: 9,
            episode_return: 1.0,
            totals,
        };
        let text = write_csv(&[row.clone(), row.clone()]);
        assert!(text.starts_with(
            "steps,episode,total_return,episode_len,episode_return,raw_return,best_episode\n90,10,-3.0,9,1.0,-0.1,1e21\n"
        ));
        assert_eq!(read_csv(&text), Ok(vec![row.clone(), row]));
    }

    #[test]
    fn damage_is_reported_with_its_line() {
        let head = "steps,episode,total_return,episode_len,episode_return";
        let error_of = |text: &str| read_csv(text).unwrap_err().to_string();
        assert_eq!(error_of("steps"), "setting at `line 1`: expected a column episode, got steps");
        assert!(
            error_of(&format!("{head}\n1,2,3,4,5\n1,2,3"))
                .starts_with("setting at `line 3`: expected 5 numbers")
        );
        assert!(error_of(&format!("{head}\n1,2,x,4,5")).ends_with("got 1,2,x,4,5"));
    }
}
