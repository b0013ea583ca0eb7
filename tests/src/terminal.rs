//! Pseudo-terminals: a program at a terminal of its own, with its keyboard and its screen.

use std::{
    fs::File,
    io::{Read, Write},
    num::NonZeroU16,
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, ExitStatus},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::{Mode, OFlags, open},
    process::{Signal, ioctl_tiocsctty, setsid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcgetattr, tcsetwinsize},
};
use vt100::{Parser, Screen};

use crate::ChildProcess;

/// Time after which a terminal that does not show what it should fails the test.
const LIMIT: Duration = Duration::from_secs(60);

/// A program at a terminal of its own.
pub struct Terminal {
    keyboard: File,
    first_settings: String,
    output: mpsc::Receiver<Vec<u8>>,
    seen: String,
    parser: Parser,
    program: ChildProcess,
}

impl Terminal {
    /// Starts a program at a terminal of this size.
    #[expect(
        unsafe_code,
        reason = "`pre_exec` is the only way to give a child a terminal"
    )]
    pub fn open(columns: u16, rows: u16, mut command: Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        #[cfg(not(target_vendor = "apple"))]
        let flags = flags | OpenptFlags::CLOEXEC;
        let pty = openpt(flags).unwrap();
        #[cfg(target_vendor = "apple")]
        rustix::io::fcntl_setfd(&pty, rustix::io::FdFlags::CLOEXEC).unwrap();
        grantpt(&pty).unwrap();
        unlockpt(&pty).unwrap();
        let path = ptsname(&pty, Vec::new()).unwrap();
        let open_tty = || -> OwnedFd {
            open(
                &path,
                OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
                Mode::empty(),
            )
            .unwrap()
        };
        let tty = open_tty();
        tcsetwinsize(&tty, window(columns, rows)).unwrap();
        let first_settings = settings_of(&tty);
        command.stdin(tty).stdout(open_tty()).stderr(open_tty());
        // SAFETY: two system calls between fork and exec; nothing is allocated.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let program = ChildProcess::spawn("a program at a terminal", command);
        let mut reader = File::from(pty.try_clone().unwrap());
        let (sender, output) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length) = reader.read(&mut buffer) {
                if length == 0 || sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        let size = |size| NonZeroU16::new(size).expect("a terminal has a size");
        Self {
            keyboard: File::from(pty),
            first_settings,
            output,
            seen: String::new(),
            parser: Parser::new(size(rows), size(columns), 0),
            program,
        }
    }

    /// Presses keys: their letters or escape sequences.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: Signal) {
        self.program.signal(signal);
    }

    /// Returns the settings of the terminal, for comparisons.
    pub fn settings(&self) -> String {
        settings_of(&self.keyboard)
    }

    /// Returns the settings that the program found when it started, for comparisons.
    pub fn first_settings(&self) -> &str {
        &self.first_settings
    }

    /// Returns the screen, with all that was waited for.
    pub fn screen(&self) -> &Screen {
        self.parser.screen()
    }

    /// Waits for a text in the output, forgets what came up to its end, and returns that.
    pub fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.seen.find(text) {
                return self.seen.drain(..at + text.len()).collect();
            }
            if self.read(deadline).is_err() {
                panic!("no {text:?} in {:?}", self.seen);
            }
        }
    }

    /// Waits until the screen is as it should be.
    pub fn until(&mut self, what: &str, is_so: impl Fn(&Screen) -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !is_so(self.parser.screen()) {
            if self.read(deadline).is_err() {
                panic!("no {what} on:\n{}", self.parser.screen().contents());
            }
        }
    }

    /// Waits until the screen shows a text.
    pub fn until_shown(&mut self, text: &str) {
        self.until(text, |screen| screen.contents().contains(text));
    }

    /// Waits until the program has ended and all its output was read.
    pub fn until_ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        loop {
            match self.read(deadline) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the program goes on"),
            }
        }
        loop {
            if let Some(status) = self.program.try_wait() {
                return status;
            }
            assert!(Instant::now() < deadline, "the program goes on");
            thread::yield_now();
        }
    }

    fn read(&mut self, deadline: Instant) -> Result<(), RecvTimeoutError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let more = self.output.recv_timeout(left)?;
        self.parser.process(&more);
        self.seen.push_str(&String::from_utf8_lossy(&more));
        Ok(())
    }
}

/// Returns the settings of a terminal, for comparisons.
fn settings_of(terminal: impl AsFd) -> String {
    let settings = tcgetattr(terminal).unwrap();
    let (input, output) = (settings.input_modes, settings.output_modes);
    format!("{input:?} {output:?} {:?}", settings.local_modes)
}

fn window(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
