//! The page: one self-contained file.

use super::pictures::{Picture, SMOOTH};
use super::table::{Cell, Table};
use crate::commands::rl::sweep::scores::Scored;

const STYLE: &str = "body{font-family:sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#222}\
    table{border-collapse:collapse}td,th{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:right}\
    td:first-child,th:first-child{text-align:left}small{color:#666}svg{width:100%;height:auto}\
    .curves{display:grid;grid-template-columns:repeat(auto-fill,minmax(30em,1fr));gap:1em}.radar{max-width:60em}";

const ABOUT_SCORES: &str = "Scores are means over seeds, followed by the lowest and the highest value. \
                            Environments of bsuite are scored from 0 to 1 by bsuite's rules; an experiment's \
                            score includes only the environments that were run. Other environments are scored \
                            by the position of their mean return relative to a random policy's (0) and an \
                            expert's (1), which can be lower than 0 or higher than 1, and have no score where \
                            these are unknown. Returns are means over the last \
                            100 episodes, including exploration; for runs that learn from data, they are those \
                            of the last evaluation.";

/// Returns the whole page.
pub(super) fn html(all: &[Scored<'_>], radar: Option<&Picture>, curves: &[Picture]) -> String {
    let table = Table::of(all);
    let title = format!("{} in {} environments", escaped(&table.agents.join(", ")), table.rows.len());
    let radar = radar.map_or_else(String::new, |radar| {
        format!("<h2>Scores by capability</h2><div class=\"radar\">{}</div>\n", radar.svg)
    });
    let curves: String = curves.iter().map(|curve| format!("<div>{}</div>\n", curve.svg)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n<p>{} runs. {ABOUT_SCORES}</p>\n{radar}<h2>Scores and returns</h2>\n{}<h2>Learning curves</h2>\n\
         <p>Means over seeds and over the last {} episodes; the band spans the lowest to the highest seed.</p>\n\
         <div class=\"curves\">{curves}</div></body></html>\n",
        all.len(),
        table_html(&table),
        SMOOTH,
    )
}

fn table_html(table: &Table) -> String {
    let heads = |each: &dyn Fn(&String) -> String| table.agents.iter().map(each).collect::<String>();
    let names = heads(&|agent| format!("<th colspan=\"2\">{}</th>", escaped(agent)));
    let columns = heads(&|_| "<th>score</th><th>return</th>".to_owned());
    let row = |name: &str, cells: &str| format!("<tr><td>{}</td>{cells}</tr>\n", escaped(name));
    let mut rows = String::new();
    for each in &table.rows {
        let cells: String = each.cells.iter().map(cell).collect();
        rows += &row(&each.environment, &cells);
    }
    let mean = |mean: &Option<f64>| format!("<td>{}</td><td></td>", number(*mean));
    let means: String = table.means.iter().map(mean).collect();
    format!(
        "<table><thead><tr><th></th>{names}</tr><tr><th>environment</th>{columns}</tr></thead>\n<tbody>{rows}{}</tbody></table>\n",
        row("mean of all", &means)
    )
}

fn cell(cell: &Cell) -> String {
    format!("<td>{}</td><td>{}</td>", ranged(cell.score), ranged(cell.episode_return))
}

/// Returns a mean, followed by the range if there are several seeds.
pub(super) fn ranged(range: Option<[f64; 3]>) -> String {
    match range {
        Some([least, mean, greatest]) if least < greatest => {
            format!(
                "{} <small>{} … {}</small>",
                number(Some(mean)),
                number(Some(least)),
                number(Some(greatest))
            )
        }
        range => number(range.map(|[_, mean, _]| mean)),
    }
}

/// Formats a number with about three digits.
fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_numbers_have_three_significant_digits() {
        assert_eq!(
            [Some(-1234.5), Some(12.34), Some(0.126), None].map(number),
            ["-1234", "12.3", "0.13", "–"]
        );
        assert_eq!(ranged(Some([1.0, 2.0, 3.0])), "2.00 <small>1.00 … 3.00</small>");
        assert_eq!(ranged(Some([2.0, 2.0, 2.0])), "2.00");
    }

    #[test]
    fn names_are_html_escaped() {
        assert_eq!(escaped("<a & \"b\">"), "&lt;a &amp; &quot;b&quot;&gt;");
    }
}
