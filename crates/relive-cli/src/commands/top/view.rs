//! Draws the screen.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row, Table as Grid, TableState, Wrap};
use relive_client::ServerStatus;

use super::state::{Sort, Top, bytes as bytes_of, waiters as waiters_of};
use crate::commands::info::rates::Rates;
use crate::commands::info::snapshot::{Server, Table};
use crate::commands::info::{bar::bar, checkpoints, memory, text};
use crate::rules::bounds;
use crate::units::{bytes, count, counted, number, per_second, time};

const KEYS: &str = "q quit  sort: n name  i inserts  s samples  m bytes  w waiters  r reverse  ↑↓ choose";

/// The number of lines for the waiters of the selected table.
const WAITER_LINES: u16 = 8;

pub(super) fn draw(frame: &mut Frame<'_>, top: &Top) {
    let head = head(top);
    let lines = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let parts = [
        Constraint::Length(lines),
        Constraint::Fill(1),
        Constraint::Max(WAITER_LINES),
        Constraint::Length(1),
    ];
    let [above, tables, waiters, foot] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Paragraph::new(head), above);
    grid(frame, top, tables);
    frame.render_widget(Paragraph::new(details(top)).wrap(Wrap { trim: false }), waiters);
    let foot_line = match &top.last_error {
        Some(why) => Line::from(format!("{} does not answer: {why}", top.address)).fg(Color::Red),
        None => Line::from(KEYS).dim(),
    };
    frame.render_widget(Paragraph::new(foot_line), foot);
}

fn head(top: &Top) -> Vec<Line<'static>> {
    match top.now().map(|now| &now.server) {
        Some(Server::Relive(status)) => {
            let ServerStatus { version, uptime, chunks, memory, connections, checkpoints, .. } = &**status;
            let mut lines = vec![
                Line::from(format!("Relive {version} at {}, up {}", top.address, time(*uptime))).bold(),
                Line::from(format!(
                    "{}; {}",
                    counted(*connections, "connection"),
                    memory::line(chunks, memory)
                )),
            ];
            lines.extend(checkpoints::lines(checkpoints).into_iter().map(Line::from));
            lines
        }
        Some(Server::Reverb(_)) => vec![Line::from(format!("dm-reverb at {}", top.address)).bold()],
        None => vec![Line::from(format!("asking {}", top.address))],
    }
}

/// The content of a column, its minimum width, and the minimum width of a terminal in which it is shown.
struct Column {
    title: &'static str,
    sort: Option<Sort>,
    width: Constraint,
    from: u16,
}

const fn column(title: &'static str, sort: Option<Sort>, width: Constraint, from: u16) -> Column {
    Column { title, sort, width, from }
}

/// Names and limiters share the remaining width. The most important columns fit 80 columns.
const COLUMNS: [Column; 9] = [
    column("TABLE", Some(Sort::Name), Constraint::Min(14), 0),
    column("ITEMS", None, Constraint::Length(11), 26),
    column("FULL", None, Constraint::Length(6), 103),
    column("BYTES", Some(Sort::Bytes), Constraint::Length(11), 115),
    column("IN/S", Some(Sort::Inserts), Constraint::Length(9), 36),
    column("OUT/S", Some(Sort::Samples), Constraint::Length(9), 46),
    column("OUT/IN", None, Constraint::Length(8), 96),
    column("LIMITER", None, Constraint::Min(LIMITER_WIDTH), 78),
    column("WAITING", Some(Sort::Waiters), Constraint::Length(8), 87),
];

/// The bar with its brackets, and a number.
const LIMITER_WIDTH: u16 = 31;

fn grid(frame: &mut Frame<'_>, top: &Top, area: Rect) {
    let rows = top.rows();
    let grid = Grid::new(
        rows.iter().map(|(table, rates)| Row::new(shown(row(*table, *rates), area.width))),
        shown(COLUMNS.map(|column| column.width), area.width),
    )
    .header(Row::new(shown(header(top), area.width)).bold())
    .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(top.selected()).filter(|_| !rows.is_empty()));
    frame.render_stateful_widget(grid, area, &mut state);
}

/// Returns the columns that fit the given width.
fn shown<T>(all: [T; COLUMNS.len()], width: u16) -> impl Iterator<Item = T> {
    all.into_iter().zip(COLUMNS).filter(move |(_, column)| width >= column.from).map(|(one, _)| one)
}

fn header(top: &Top) -> [Cell<'static>; COLUMNS.len()] {
    let mark = if top.is_reversed { "▴" } else { "▾" };
    COLUMNS.map(|Column { title, sort, .. }| {
        let is_sorted = sort == Some(top.sort);
        Cell::from(if is_sorted { format!("{title}{mark}") } else { title.to_owned() })
    })
}

fn row(table: Table<'_>, rates: Rates) -> [Cell<'static>; COLUMNS.len()] {
    let info = table.info;
    let full = info.current_size as f64 / info.config.max_size.max(1) as f64 * 100.0;
    let rate = |rate: Option<f64>| rate.map_or_else(|| "–".to_owned(), per_second);
    let ratio =
        if info.inserts > 0 { number(info.samples as f64 / info.inserts as f64) } else { "–".into() };
    let waiting = match waiters_of(table) {
        0 => Cell::from("0"),
        waiting => Cell::from(count(waiting)).fg(Color::Yellow),
    };
    [
        Cell::from(name(table)),
        Cell::from(count(info.current_size)),
        Cell::from(format!("{full:.0} %")),
        Cell::from(table.details.map_or_else(|| "–".to_owned(), |_| bytes(bytes_of(table)))),
        Cell::from(rate(rates.inserts_per_s)).fg(Color::Blue),
        Cell::from(rate(rates.samples_per_s)).fg(Color::Magenta),
        Cell::from(ratio),
        Cell::from(limiter(table)),
        waiting,
    ]
}

fn name(table: Table<'_>) -> String {
    let name = &table.info.config.name;
    match table.details.is_some_and(|details| details.paused.inserts || details.paused.samples) {
        true => format!("{name} (paused)"),
        false => name.clone(),
    }
}

/// Returns the cursor as a bar if it lies between two bounds, and otherwise as a number. Without bounds, returns by how
/// many items the table exceeds the minimum, or how many items are missing.
fn limiter(table: Table<'_>) -> String {
    match bounds(&table.info.config.rate_limiter) {
        (Some(min), Some(max)) if (min..=max).contains(&table.cursor) => {
            format!("{} {}", bar(table.cursor, min, max), number(table.cursor))
        }
        (None, None) => match text::beyond_minimum(table) {
            Ok(over) => format!("{} over the minimum", count(over)),
            Err(missing) => format!("{} missing", counted(missing, "item")),
        },
        (min, max) => {
            let bound = |bound: Option<f64>| bound.map(number).unwrap_or_default();
            format!("{} in {}..{}", number(table.cursor), bound(min), bound(max))
        }
    }
}

/// Returns the waiters of the selected table.
fn details(top: &Top) -> Vec<Line<'static>> {
    let rows = top.rows();
    let Some((table, _)) = rows.get(top.selected()) else { return Vec::new() };
    let Some(details) = table.details else { return Vec::new() };
    let mut lines = vec![Line::from(table.info.config.name.clone()).bold()];
    lines.extend(text::waiters(&details.waiters, details.waiters_not_listed).into_iter().map(Line::from));
    lines.truncate(usize::from(WAITER_LINES));
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyCode;
    use relive_client::{Client, ClientOptions, ServerInfo, StateId};
    use relive_engine::Engine;
    use relive_table::{TableChange, TableConfig, TableInfo};

    use super::*;
    use crate::commands::info::snapshot::Snapshot;

    fn of_tables(tables: Vec<TableInfo>) -> Snapshot {
        Snapshot::of(Server::Reverb(ServerInfo { state_id: StateId::default(), tables }))
    }

    fn picture(top: &Top, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, top)).unwrap();
        terminal.backend().to_string()
    }

    fn info(config: TableConfig, inserts: i64, samples: i64) -> TableInfo {
        let size = u64::try_from(inserts).unwrap();
        TableInfo {
            config: config.into(),
            current_size: size,
            num_episodes: 0,
            num_deleted_episodes: 0,
            num_unique_samples: 0,
            num_refused_requests: 0,
            inserts,
            samples,
            deletes: 0,
        }
    }

    /// Returns two snapshots of two tables, two seconds apart.
    fn sample_top() -> Top {
        let tables = |more: i64| {
            of_tables(vec![
                info(TableConfig::new("alpha"), 10 + more, 2 * more),
                info(TableConfig::queue("beta", 8), 4, 2),
            ])
        };
        let (mut before, now) = (tables(0), tables(200));
        before.taken_at = now.taken_at.checked_sub(Duration::from_secs(2)).unwrap();
        let mut top = Top::new("host:1");
        top.take(Ok(before));
        top.take(Ok(now));
        top
    }

    #[test]
    fn tables_are_shown_with_rates_and_limiters() {
        let text = picture(&sample_top(), 140, 20);
        for part in [
            "dm-reverb at host:1",
            "TABLE▾",
            "alpha",
            "210",
            "100",
            "200",
            "over the minimum",
            "[------|-----",
            "q quit",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn a_terminal_of_normal_width_shows_names_rates_and_the_limiter() {
        let text = picture(&sample_top(), 80, 20);
        for part in ["alpha ", " 210 ", " 100 ", " 200 ", "-----------------] ", "LIMITER"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("BYTES") && !text.contains("WAITING"), "{text}");
        let text = picture(&sample_top(), 45, 20);
        assert!(text.contains("alpha ") && text.contains(" 210 ") && !text.contains("LIMITER"), "{text}");
    }

    #[test]
    fn keystrokes_sort_select_and_quit() {
        let mut top = sample_top();
        let names = |top: &Top| {
            top.rows().iter().map(|(table, _)| table.info.config.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&top), ["alpha", "beta"]);
        top.press(KeyCode::Char('r'));
        assert_eq!(names(&top), ["beta", "alpha"]);
        top.press(KeyCode::Char('i'));
        assert_eq!(names(&top), ["beta", "alpha"], "the smallest comes first now");
        top.press(KeyCode::Char('r'));
        assert_eq!(names(&top), ["alpha", "beta"]);
        (0..9).for_each(|_| top.press(KeyCode::Down));
        assert_eq!(top.selected(), 1);
        top.press(KeyCode::Up);
        assert_eq!(top.selected(), 0);
        top.press(KeyCode::Null);
        assert!(!top.is_done());
        top.press(KeyCode::Char('q'));
        assert!(top.is_done());
    }

    #[test]
    fn any_size_can_be_drawn() {
        let top = sample_top();
        for (width, height) in [(1, 1), (2, 1), (3, 40), (200, 2), (20, 5), (300, 100)] {
            picture(&top, width, height);
        }
        picture(&Top::new("host:1"), 80, 24);
    }

    #[tokio::test]
    async fn a_lost_server_is_reported_and_the_last_view_stays() {
        let engine = Engine::builder().table(TableConfig::queue("steps", 5)).build().unwrap();
        engine.change_table("steps", &TableChange::new().pause_inserts(true), &"me".into()).unwrap();
        let mut top = Top::new("here");
        top.take(Snapshot::take(&Client::in_process(engine)).await);
        let text = picture(&top, 140, 20);
        assert!(text.contains("steps (paused)") && text.contains("0 connections"), "{text}");
        let options = ClientOptions::default().timeout(Duration::from_millis(50));
        let nobody = Client::connect_with("127.0.0.1:1", options).unwrap();
        top.take(Snapshot::take(&nobody).await);
        let text = picture(&top, 140, 20);
        assert!(text.contains("here does not answer: ") && text.contains("steps"), "{text}");
    }
}
