//! Child processes that do not outlive this one.

use std::{env, io, path::PathBuf, process::ExitStatus, time::Duration};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process, waitid};
use tokio::process::{Child, ChildStdout, Command};

/// A child process, killed when it is dropped, and by the kernel when this process dies.
#[derive(Debug)]
pub struct Process {
    child: Child,
    pid: Pid,
    name: String,
}

impl Process {
    /// Starts `command`; `name` is what errors call it. To be called from the main thread: the kernel sends the
    /// parent-death signal when the *thread* ends that started the child.
    ///
    /// # Errors
    ///
    /// If it can't be started.
    pub fn start(name: impl Into<String>, mut command: Command) -> anyhow::Result<Self> {
        let name = name.into();
        die_with_parent(&mut command);
        let child = command
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to start {name}"))?;
        let pid = child
            .id()
            .and_then(|id| Pid::from_raw(id.cast_signed()))
            .with_context(|| format!("{name} has no process id"))?;
        Ok(Self { child, pid, name })
    }

    /// Its process id.
    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Its standard output, where that was piped.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns its exit status if it has ended.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    ///
    /// If it did not end well.
    pub async fn end(mut self) -> anyhow::Result<()> {
        let status = self.child.wait().await?;
        if !status.success() {
            bail!("{} failed: {status}", self.name);
        }
        Ok(())
    }

    /// Ends it with SIGKILL, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub async fn kill(mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Asks it to end, with SIGTERM.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn terminate(&self) -> io::Result<()> {
        Ok(kill_process(self.pid, Signal::TERM)?)
    }

    /// Stops it with SIGSTOP, and waits until it has stopped.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        kill_process(self.pid, Signal::STOP)?;
        self.stopped().await
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub async fn stopped(&mut self) -> anyhow::Result<()> {
        let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        while waitid(WaitId::Pid(self.pid), stopped)?.is_none() {
            if let Some(status) = self.try_wait()? {
                bail!("{} ended before it stopped: {status}", self.name);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Lets it go on after it has stopped.
    ///
    /// # Errors
    ///
    /// If it has ended.
    pub fn go_on(&self) -> io::Result<()> {
        Ok(kill_process(self.pid, Signal::CONT)?)
    }
}

/// Returns the path of this program, to start it again, even if a newer build has replaced it meanwhile.
///
/// # Errors
///
/// If it can't be found.
pub fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok("/proc/self/exe".into())
    } else {
        env::current_exe()
    }
}

fn die_with_parent(command: &mut Command) {
    let parent = getpid();
    let prepare = move || {
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the line above.
        if getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::from(io::ErrorKind::BrokenPipe))
        }
    };
    #[expect(
        unsafe_code,
        reason = "there is no safe way to have a parent-death signal"
    )]
    // SAFETY: between fork and exec the closure makes two system calls; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(prepare);
    }
}
