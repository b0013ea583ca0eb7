//! Example of a group: members come and go, and everybody knows who is there.
//!
//! ```text
//! cargo run --example members -- http://127.0.0.1:7420
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::{collections::BTreeMap, error::Error};

use leasehold_client::{
    AcquireError, Admin, Client, Failure, FencingToken, LockEventKind, LockWatchEvent, LockWatcher,
    Session,
};

const GROUP: &str = "members/web";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args().nth(1).ok_or("usage: members ENDPOINT")?;
    let client = Client::connect(endpoint).await?;
    let mut members = Members::watch(&client.admin());

    // Each would be a process of its own.
    tokio::spawn(remain(client.session().open().await?, "web-1"));
    members.until(&["web-1"]).await?;
    let second = tokio::spawn(remain(client.session().open().await?, "web-2"));
    members.until(&["web-1", "web-2"]).await?;

    // As when the process ends.
    second.abort();
    members.until(&["web-1"]).await?;

    // A member that is put out comes back.
    client.admin().force_release(GROUP).await?;
    members.until(&[]).await?;
    members.until(&["web-1"]).await?;

    client.close().await;
    Ok(())
}

/// Keeps a member in the group: joins, and joins again whenever the membership is lost. The member leaves when this future is
/// dropped, or with its process.
async fn remain(session: Session, address: &str) -> Result<(), AcquireError> {
    loop {
        let membership = session.lock(GROUP).shared().value(address).await?;
        membership.lost().await;
    }
}

/// Mirror of a group: the shared holds of its name.
struct Members {
    watcher: LockWatcher,
    present: BTreeMap<FencingToken, String>,
    /// Whether it knows all of them.
    is_complete: bool,
}

impl Members {
    fn watch(admin: &Admin) -> Self {
        Self {
            watcher: admin.watch_locks(GROUP),
            present: BTreeMap::new(),
            is_complete: false,
        }
    }

    /// Waits for the next news. The watcher reconnects by itself, and begins with a gap then.
    async fn update(&mut self) -> Result<(), Failure> {
        let Some(news) = self.watcher.next().await else {
            return Ok(());
        };
        match news? {
            // The prefix has other names too.
            LockWatchEvent::Lock(lock) if lock.name == GROUP => {
                let holders = lock.holders.into_iter();
                let members =
                    holders.filter_map(|holder| Some((holder.fencing_token?, holder.value)));
                self.present = members
                    .map(|(token, value)| (token, text(&value)))
                    .collect();
            }
            LockWatchEvent::Event(event) if event.name == GROUP => {
                match (event.kind, event.fencing_token, event.holder) {
                    (
                        LockEventKind::Granted | LockEventKind::ValueChanged,
                        Some(token),
                        Some(member),
                    ) => {
                        self.present.insert(token, text(&member.value));
                    }
                    (
                        LockEventKind::Released
                        | LockEventKind::Expired
                        | LockEventKind::Lost
                        | LockEventKind::Forced,
                        Some(token),
                        _,
                    ) => {
                        self.present.remove(&token);
                    }
                    _ => {}
                }
            }
            LockWatchEvent::Ready => self.is_complete = true,
            LockWatchEvent::Gap(_) => {
                self.present.clear();
                self.is_complete = false;
            }
            _ => {}
        }
        Ok(())
    }

    /// Prints each change until these are the members.
    async fn until(&mut self, wanted: &[&str]) -> Result<(), Failure> {
        while !self.is_complete || !self.present.values().eq(wanted) {
            self.update().await?;
        }
        println!("members: {}", wanted.join(", "));
        Ok(())
    }
}

fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).into_owned()
}
