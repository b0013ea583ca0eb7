//! Child processes that leave nothing behind.

use std::{
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus},
    sync::{OnceLock, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::wait;

/// Lets a process have so many files open from now on, and returns how many it might before. With none it opens none, and keeps
/// those that it has.
///
/// # Panics
///
/// If there is no such process.
#[cfg(target_os = "linux")]
pub fn limit_open_files(process: u32, files: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, prlimit};

    let id = Pid::from_raw(process.cast_signed());
    let limit = |current| {
        let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
        let limits = Rlimit { current, maximum };
        prlimit(id, Resource::Nofile, limits).expect("the process is there")
    };
    limit(Some(files)).current.unwrap_or(u64::MAX)
}

/// A child process that is killed when its handle is dropped, and by the kernel when this process dies.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    name: String,
}

impl ChildProcess {
    /// Starts `command`; `name` is what messages call it.
    ///
    /// # Panics
    ///
    /// If it can't be started.
    pub fn spawn(name: impl Into<String>, command: Command) -> Self {
        let name = name.into();
        match try_spawn(command) {
            Ok(child) => Self { child, name },
            Err(error) => panic!("failed to start {name}: {error}"),
        }
    }

    /// Returns the process's id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input, where that was piped and has not been taken yet.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn take_stdin(&mut self) -> ChildStdin {
        self.child.stdin.take().expect("standard input is piped")
    }

    /// Its standard output, where that was piped and has not been taken yet.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn take_stdout(&mut self) -> ChildStdout {
        self.child.stdout.take().expect("standard output is piped")
    }

    /// Returns the lines of its standard output, if it was piped and has not been taken yet.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn take_lines(&mut self) -> Lines {
        Lines::of(self.take_stdout())
    }

    /// Sends a signal.
    ///
    /// # Panics
    ///
    /// If the process is gone.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(self.pid(), signal)
            .unwrap_or_else(|error| panic!("failed to send {signal:?} to {}: {error}", self.name));
    }

    /// Ends it with SIGKILL and waits until it is gone. Does nothing if it has ended.
    pub fn kill(&mut self) {
        // It may have ended by itself, which is what was wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Stops it with SIGSTOP, and waits until it has stopped.
    ///
    /// # Panics
    ///
    /// If it has not stopped after five seconds.
    pub fn stop(&self) {
        self.signal(Signal::STOP);
        wait::until_blocking("a process to stop", Duration::from_secs(5), || {
            match self.state() {
                Some('T') => Ok(()),
                other => Err(other),
            }
        });
    }

    /// Lets it go on after a stop.
    pub fn cont(&self) {
        self.signal(Signal::CONT);
    }

    /// Asks it to end with SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Returns whether it is there and not stopped.
    pub fn is_running(&self) -> bool {
        !matches!(self.state(), None | Some('T' | 't' | 'Z' | 'X'))
    }

    /// Returns its exit status if it has ended.
    ///
    /// # Panics
    ///
    /// If the kernel does not say.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the child can be waited for")
    }

    /// Waits for it to end by itself.
    ///
    /// # Panics
    ///
    /// If it has not ended after `limit`.
    pub async fn wait(&mut self, limit: Duration) -> ExitStatus {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.try_wait() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "{} has not ended after {limit:?}",
                self.name
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Returns the state letter of ps(1): R, S, D, T, Z…
    fn state(&self) -> Option<char> {
        state(self.id())
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the state letter of a process, as proc(5) and ps(1) have it: R, S, D, T, Z…; `None` if there is no such process.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
pub fn state(process: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it is in parentheses and may hold anything.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Returns the state letter of a process, as ps(1) has it: R, S, D, T, Z…; `None` if there is no such process.
#[cfg(not(all(target_os = "linux", not(leasehold_portable))))]
pub fn state(process: u32) -> Option<char> {
    let mut ps = Command::new("ps");
    let ps = ps.args(["-o", "state=", "-p", &process.to_string()]);
    let output = ps.output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().chars().next()
}

/// The lines that a process prints, with the time at which each was read.
#[derive(Debug)]
pub struct Lines {
    lines: UnboundedReceiver<(Instant, String)>,
}

impl Lines {
    /// Reads lines from `source` in a thread of its own, so that a line's time does not depend on who looks when.
    pub fn of(source: impl Read + Send + 'static) -> Self {
        let (sender, lines) = unbounded_channel();
        thread::spawn(move || {
            for line in BufReader::new(source).lines() {
                let Ok(line) = line else { return };
                if sender.send((Instant::now(), line)).is_err() {
                    return;
                }
            }
        });
        Self { lines }
    }

    /// Returns the next line; `None` if the process has closed its output.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`.
    pub async fn next(&mut self, limit: Duration) -> Option<(Instant, String)> {
        match tokio::time::timeout(limit, self.lines.recv()).await {
            Ok(line) => line,
            Err(_) => panic!("no line came within {limit:?}"),
        }
    }

    /// Returns the lines that have been read and not taken, without waiting for more.
    pub fn ready(&mut self) -> Vec<String> {
        let lines = std::iter::from_fn(|| self.lines.try_recv().ok());
        lines.map(|(_, line)| line).collect()
    }

    /// Returns the next line that begins with `prefix`; others before it are dropped.
    ///
    /// # Panics
    ///
    /// If none comes within `limit`, or the output ends first.
    pub async fn expect(&mut self, prefix: &str, limit: Duration) -> (Instant, String) {
        let deadline = Instant::now() + limit;
        let mut passed = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match tokio::time::timeout(left, self.lines.recv()).await {
                Ok(Some((at, line))) if line.starts_with(prefix) => return (at, line),
                Ok(Some((_, line))) => passed.push(line),
                Ok(None) => panic!("the output ended before `{prefix}…`; lines: {passed:?}"),
                Err(_) => panic!("no `{prefix}…` within {limit:?}; lines: {passed:?}"),
            }
        }
    }
}

type Order = (Command, mpsc::SyncSender<io::Result<Child>>);

/// Starts a child from a thread that lives as long as this process: the kernel sends the parent-death signal when the
/// *thread* that forked ends, and the threads of tests and of runtimes come and go.
fn try_spawn(mut command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let parent = rustix::process::getpid();
    let prepare = move || {
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::other("the parent has died"))
        }
    };
    #[expect(
        unsafe_code,
        reason = "there is no safe way to have a parent-death signal"
    )]
    // SAFETY: between fork and exec the closure makes two system calls and allocates only on the way out with an error
    // whose process is about to end; it takes no lock.
    unsafe {
        command.pre_exec(prepare);
    }
    let (reply, result) = mpsc::sync_channel(1);
    SPAWNER
        .get_or_init(|| {
            let (orders, inbox) = mpsc::channel::<Order>();
            thread::spawn(move || {
                for (mut command, reply) in inbox {
                    // The asking test may have ended.
                    let _ = reply.send(command.spawn());
                }
            });
            orders
        })
        .send((command, reply))
        .map_err(io::Error::other)?;
    result.recv().map_err(io::Error::other)?
}
