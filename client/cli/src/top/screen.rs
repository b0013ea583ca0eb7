//! The terminal, taken over while this lives: raw mode and the alternate screen. Dropping it, a panic too, gives the terminal
//! back as it was.

use std::{io, thread};

use ratatui::{DefaultTerminal, Frame};

/// Terminal that is drawn on.
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    /// Takes the terminal. From here on, a panic gives it back before its message is printed.
    pub(super) fn open() -> io::Result<Self> {
        match ratatui::try_init() {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                ratatui::try_restore().ok();
                Err(error)
            }
        }
    }

    pub(super) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(view).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.terminal.show_cursor().ok();
        // After a panic, that is done; done again, it would move the cursor back to before the message.
        if !thread::panicking() {
            ratatui::try_restore().ok();
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
mod tests {
    use std::{env, process::Command};

    use leasehold_tests::Terminal;

    use super::*;

    /// Variable that makes a process of these tests the one that panics.
    const PANICS: &str = "LEASEHOLD_TEST_PANICS_AT_A_SCREEN";

    #[test]
    fn a_panic_gives_the_terminal_back_and_shows_its_message() {
        if env::var_os(PANICS).is_some() {
            let mut screen = Screen::open().unwrap();
            screen
                .draw(|frame| frame.render_widget("drawn", frame.area()))
                .unwrap();
            crossterm::event::read().unwrap();
            panic!("lost the way");
        }
        let mut command = Command::new(env::current_exe().unwrap());
        let name = "top::screen::tests::a_panic_gives_the_terminal_back_and_shows_its_message";
        command
            .args([name, "--exact", "--nocapture"])
            .env(PANICS, "1")
            .env("RUST_BACKTRACE", "0");
        let mut terminal = Terminal::open(80, 24, command);
        terminal.until("drawn", |screen| {
            screen.alternate_screen() && screen.contents().contains("drawn")
        });
        assert_ne!(terminal.settings(), terminal.first_settings(), "it is raw");
        terminal.press("x");
        terminal.until("the message", |screen| {
            !screen.alternate_screen() && screen.contents().contains("lost the way")
        });
        terminal.until_ended();
        assert_eq!(terminal.settings(), terminal.first_settings());
        assert!(!terminal.screen().hide_cursor());
    }
}
