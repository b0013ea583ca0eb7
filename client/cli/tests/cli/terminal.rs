//! Terminal: the foreground process of a `run`, and the display of a `bench`.

use std::{
    fs::File,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::Command,
    sync::mpsc,
    thread,
    time::Instant,
};

use leasehold_tests::{ChildProcess, Coordinator};
use rustix::{
    fs::{Mode, OFlags, open},
    process::{ioctl_tiocsctty, setsid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use super::LIMIT;

/// A shell at a terminal of its own.
struct Terminal {
    keyboard: File,
    screen: mpsc::Receiver<Vec<u8>>,
    seen: String,
    _shell: ChildProcess,
}

impl Terminal {
    #[expect(
        unsafe_code,
        reason = "`pre_exec` is the only way to give a child a terminal"
    )]
    fn open(endpoint: &str, script: &str) -> Self {
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
        let mut command = Command::new("sh");
        command
            .args(["-c", script, env!("CARGO_BIN_EXE_leasehold")])
            .env("LEASEHOLD_ENDPOINT", endpoint)
            .stdin(open_tty())
            .stdout(open_tty())
            .stderr(open_tty());
        super::heed_signals(&mut command);
        // SAFETY: two system calls between fork and exec; nothing is allocated.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let shell = ChildProcess::spawn("a shell at a terminal", command);
        let mut reader = File::from(pty.try_clone().unwrap());
        let (sender, screen) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(length) = reader.read(&mut buffer) {
                if length == 0 || sender.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            keyboard: File::from(pty),
            screen,
            seen: String::new(),
            _shell: shell,
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for a text, forgets what came up to its end, and returns that.
    fn expect(&mut self, text: &str) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.seen.find(text) {
                return self.seen.drain(..at + text.len()).collect();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let more = self.screen.recv_timeout(left);
            let more = more.unwrap_or_else(|_| panic!("no {text:?} in {:?}", self.seen));
            self.seen.push_str(&String::from_utf8_lossy(&more));
        }
    }
}

#[test]
fn the_command_reads_the_terminal_and_the_shell_does_again_after_it() {
    let coordinator = Coordinator::in_process();
    let script = "set -m; \"$0\" run a -- sh -c 'echo ready; read line; echo command=$line'; \
                  read line; echo shell=$line";
    let mut terminal = Terminal::open(&coordinator.endpoint(), script);
    terminal.expect("ready");
    terminal.press("one\n");
    terminal.expect("command=one");
    terminal.press("two\n");
    terminal.expect("shell=two");
}

#[test]
fn a_run_in_the_background_leaves_the_terminal_alone() {
    let coordinator = Coordinator::in_process();
    let script = "set -m; \"$0\" run a -- sh -c 'echo ready; sleep 600' & \
                  read line; echo shell=$line; kill %1; wait %1; echo ended=$?; \
                  read line; echo again=$line";
    let mut terminal = Terminal::open(&coordinator.endpoint(), script);
    terminal.expect("ready");
    terminal.press("one\n");
    terminal.expect("shell=one");
    terminal.expect("ended=143");
    terminal.press("two\n");
    terminal.expect("again=two");
}

#[test]
fn the_keys_that_interrupt_and_suspend_reach_the_command() {
    let coordinator = Coordinator::in_process();
    let script = "set -m; trap : INT; \
                  \"$0\" run a -- sh -c 'trap \"exit 9\" INT; echo ready; while :; do :; done'; \
                  echo ended=$?";
    let mut terminal = Terminal::open(&coordinator.endpoint(), script);
    terminal.expect("ready");
    terminal.press("\u{1a}");
    terminal.expect("can't be suspended");
    terminal.press("\u{3}");
    terminal.expect("ended=9");
}

#[tokio::test]
async fn a_wait_is_told_in_place_and_taken_off_at_its_end() {
    let coordinator = Coordinator::in_process();
    let endpoint = coordinator.endpoint();
    let (_holder, mut lines) = super::start(
        &endpoint,
        "a",
        &["--client-name", "holder"],
        "echo held; sleep 600",
    );
    lines.expect("held", LIMIT).await;
    let script = "stty cols 120 rows 30; \"$0\" run a --wait 3s -- true; echo ended=$?";
    let mut terminal = Terminal::open(&endpoint, script);
    let shown = terminal.expect("ended=75");
    let text = "leasehold: waiting for lock \"a\": held by holder, place 1 in the queue, ";
    // Drawn anew as time passes, on the same line.
    assert!(shown.matches(text).count() >= 2, "{shown:?}");
    let (_, after) = shown.rsplit_once(text).unwrap();
    assert!(after.contains("\u{1b}[2K"), "{shown:?}");
}

#[test]
fn a_bench_shows_its_progress_unless_it_is_told_to_be_quiet() {
    let coordinator = Coordinator::in_process();
    let script = "stty cols 120 rows 30; \
                  \"$0\" bench --clients 2 --warm-up 1s --duration 1s; echo ended=$?; \
                  \"$0\" bench --clients 2 --warm-up 0 --duration 1s --quiet; echo ended=$?";
    let mut terminal = Terminal::open(&coordinator.endpoint(), script);
    let shown = terminal.expect("ended=0");
    for part in ["warming up [", "measuring [", " left, ", " cycles/s"] {
        assert!(shown.contains(part), "no {part:?} in {shown:?}");
    }
    let shown = terminal.expect("ended=0");
    assert!(!shown.contains("measuring"), "{shown:?}");
    assert!(shown.contains("p99.9"), "{shown:?}");
}
