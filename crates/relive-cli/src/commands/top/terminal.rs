//! Takes over the terminal and restores it, regardless of how the command ends.

use std::io;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// The whole terminal, until this is dropped.
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    pub(super) fn take() -> io::Result<Self> {
        // This also restores the terminal before a panic is reported.
        Ok(Self { terminal: ratatui::try_init()? })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Key presses. A resize of the terminal counts as a key without a meaning.
pub(super) struct Keys {
    pressed: mpsc::Receiver<KeyCode>,
    terminated: Signal,
}

/// The maximum number of queued keys; nobody types faster.
const MAX_KEYS: usize = 16;

impl Keys {
    /// Reads keys on a separate thread, which ends with the process.
    pub(super) fn listen() -> io::Result<Self> {
        let (press, pressed) = mpsc::channel(MAX_KEYS);
        let read = move || {
            while let Ok(event) = event::read() {
                if key_of(&event).is_some_and(|key| press.blocking_send(key).is_err()) {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("relive-keys".to_owned()).spawn(read)?;
        Ok(Self { pressed, terminated: signal(SignalKind::terminate())? })
    }

    /// Returns the next key, or `None` when there are no more.
    pub(super) async fn next(&mut self) -> Option<KeyCode> {
        tokio::select! {
            key = self.pressed.recv() => key,
            _ = self.terminated.recv() => None,
        }
    }
}

fn key_of(event: &Event) -> Option<KeyCode> {
    match event {
        Event::Key(key) if key.kind == KeyEventKind::Release => None,
        // In raw mode, the terminal does not turn Ctrl-C into a signal.
        Event::Key(key) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            (key.code == KeyCode::Char('c')).then_some(KeyCode::Char('q'))
        }
        Event::Key(key) => Some(key.code),
        Event::Resize(..) => Some(KeyCode::Null),
        _ => None,
    }
}
