//! `run` of an ordinary user whose command runs processes of another one, as with sudo. Needs root, to have both.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
    process::{Command, Stdio},
};

use leasehold_client::Client;
use leasehold_tests::{ChildProcess, process::Lines};
use rustix::fs::{Mode, OFlags, open};
use tempfile::TempDir;

use super::{LIMIT, copy_program, gone, heed_signals, is_root, lives, served};

/// An ordinary user, and what the command runs as.
const USER: u32 = 65534;

/// A folder. Dropping it ends what waits for its pipe: nothing else would if a test fails.
struct Folder(TempDir);

impl Drop for Folder {
    fn drop(&mut self) {
        // Fails if nothing waits.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK;
        if let Ok(stop) = open(self.0.path().join("stop"), flags, Mode::empty()) {
            rustix::io::write(stop, b"\n").ok();
        }
    }
}

/// Returns a folder with the tool, a pipe `stop`, and a program `other` that runs a command as another user, as sudo does. `None`
/// without root.
fn folder() -> Option<Folder> {
    if !is_root("only root has processes of other users") {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let permit = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    permit(folder.path(), 0o755);
    let tool = folder.path().join("leasehold");
    copy_program(env!("CARGO_BIN_EXE_leasehold"), &tool);
    let other = folder.path().join("other");
    copy_program("/usr/bin/setpriv", &other);
    chown(&other, Some(0), Some(0)).unwrap();
    permit(&other, 0o4755);
    let stop = folder.path().join("stop");
    let made = Command::new("mkfifo").arg(&stop).status().unwrap();
    assert!(made.success());
    permit(&stop, 0o666);
    Some(Folder(folder))
}

/// Starts a run as an ordinary user; the lines are those of both its outputs. In the script, `$other` runs a command as another
/// user, and `$stop` is a pipe.
fn start(endpoint: &str, folder: &Folder, script: &str) -> (ChildProcess, Lines) {
    let path = |name| folder.0.path().join(name);
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 2>&1; exec \"$0\" run a -- sh -c \"$1\""])
        .arg(path("leasehold"))
        .arg(script)
        .env("LEASEHOLD_ENDPOINT", endpoint)
        .env(
            "other",
            format!(
                "{} --reuid 65533 --regid 65533 --clear-groups",
                path("other").display()
            ),
        )
        .env("stop", path("stop"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .uid(USER)
        .gid(USER);
    heed_signals(&mut command);
    let mut run = ChildProcess::spawn("leasehold run as a user", command);
    let lines = run.take_lines();
    (run, lines)
}

/// Takes the lock away from the run.
async fn take_away(client: &Client) {
    assert!(client.admin().force_release("a").await.unwrap().released);
}

/// Returns the rest of the lines.
async fn rest(mut lines: Lines) -> String {
    let mut said = String::new();
    while let Some((_, line)) = lines.next(LIMIT).await {
        said += &format!("{line}\n");
    }
    said
}

/// As sudo passes TERM on, which it can't do with KILL.
#[tokio::test]
async fn a_command_with_processes_of_another_user_is_asked_before_it_is_killed() {
    let Some(folder) = folder() else { return };
    let (_coordinator, endpoint, client) = served().await;
    let script = "trap 'echo term; echo >$stop; wait; exit' TERM; \
                  $other sh -c 'echo ready; read line <$stop; echo passed on' & wait";
    let (mut run, mut lines) = start(&endpoint, &folder, script);
    lines.expect("ready", LIMIT).await;
    take_away(&client).await;
    assert_eq!(run.wait(LIMIT).await.code(), Some(70));
    let said = rest(lines).await;
    assert!(
        said.contains("term\n") && said.contains("passed on\n"),
        "{said}"
    );
    assert!(!said.contains("other users"), "{said}");
}

/// Also if the whole command is another user's, or only a process that it left.
#[tokio::test]
async fn what_belongs_to_another_user_and_goes_on_is_named() {
    let Some(folder) = folder() else { return };
    let (_coordinator, endpoint, client) = served().await;
    let goes_on = "$other sh -c 'echo $$; read line <$stop'";
    for (script, is_command) in [
        (format!("exec {goes_on}"), true),
        (format!("{goes_on} & wait"), false),
    ] {
        let (mut run, mut lines) = start(&endpoint, &folder, &script);
        let (_, id) = lines.next(LIMIT).await.unwrap();
        take_away(&client).await;
        let (_, said) = lines
            .expect("leasehold: the command's processes", LIMIT)
            .await;
        let named = format!("go on without the lock: process {id} of user 65533;");
        assert!(said.contains(&named), "{said}");
        assert!(lives(&id), "{script}");
        // A run ends after its command.
        if is_command {
            assert!(run.is_running());
        } else {
            assert_eq!(run.wait(LIMIT).await.code(), Some(70));
        }
        fs::write(folder.0.path().join("stop"), "\n").unwrap();
        assert_eq!(run.wait(LIMIT).await.code(), Some(70));
    }
}

#[tokio::test]
async fn the_guardian_of_a_killed_run_asks_too() {
    let Some(folder) = folder() else { return };
    let (_coordinator, endpoint, _client) = served().await;
    // The process that the parent-death signal kills is not the one that passes TERM on.
    let script = "sh -c 'trap \"echo >$stop\" TERM; \
                  $other sh -c \"echo \\$\\$; read line <$stop\" & wait; wait' & wait";
    let (mut run, mut lines) = start(&endpoint, &folder, script);
    let (_, id) = lines.next(LIMIT).await.unwrap();
    run.kill();
    gone("the other user's process", &id).await;
}
