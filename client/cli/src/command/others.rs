//! Processes of a command that belong to other users, such as what `sudo` runs. This process may not signal them, and so can't
//! stop them: whatever started them has to be asked. Only Linux tells which there are.

use std::{fmt, time::Duration};

use rustix::process::Pid;

/// Time that a command has to pass TERM on to processes of other users, before it is killed and can't.
pub(super) const TIME_TO_PASS_ON: Duration = Duration::from_secs(1);

/// Longest look at the machine's processes: the command is to be killed after it, however many there are.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
const LONGEST_LOOK: Duration = Duration::from_millis(100);

/// A process that this one may not signal.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Other {
    pub(super) id: Pid,
    user: u32,
    /// Distinguishes it from a later process with the same id.
    started: u64,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "process {} of user {}",
            self.id.as_raw_nonzero(),
            self.user
        )
    }
}

/// Returns the processes of a group, and the descendants of its leader, that this process may not signal, as far as they are found
/// soon.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
pub(super) fn others(group: Pid) -> Vec<Other> {
    use std::{
        collections::{HashMap, HashSet},
        time::Instant,
    };

    use rustix::{io::Errno, process::test_kill_process};

    let Ok(folders) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let leader = group.as_raw_nonzero().get();
    let ids = folders.filter_map(|folder| folder.ok()?.file_name().to_str()?.parse().ok());
    let mut ids: Vec<i32> = ids.collect();
    // Most processes of the command were started after its first one.
    ids.sort_unstable_by_key(|id| (*id < leader, *id));
    let end = Instant::now() + LONGEST_LOOK;
    let ids = ids.into_iter().take_while(|_| Instant::now() < end);
    let found = ids.filter_map(|id| Some((id, Process::read(Pid::from_raw(id)?)?)));
    let found: HashMap<i32, Process> = found.collect();
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (id, process) in &found {
        children.entry(process.parent).or_default().push(*id);
    }
    let members = found.iter().filter(|(_, process)| process.group == leader);
    let mut open: Vec<i32> = members.map(|(id, _)| *id).chain([leader]).collect();
    let mut seen = HashSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(children.get(&id).into_iter().flatten());
        }
    }
    let mut others: Vec<Other> = seen
        .into_iter()
        .filter_map(|id| {
            let (process, id) = (found.get(&id)?, Pid::from_raw(id)?);
            let is_other = !process.has_ended && test_kill_process(id) == Err(Errno::PERM);
            is_other.then_some(Other {
                id,
                user: process.user,
                started: process.started,
            })
        })
        .collect();
    others.sort_by_key(|other| other.id.as_raw_nonzero());
    others
}

#[cfg(not(all(target_os = "linux", not(leasehold_portable))))]
pub(super) fn others(_group: Pid) -> Vec<Other> {
    Vec::new()
}

#[cfg(all(target_os = "linux", not(leasehold_portable)))]
impl Other {
    /// Returns whether it still runs.
    pub(super) fn lives(&self) -> bool {
        Process::read(self.id)
            .is_some_and(|process| process.started == self.started && !process.has_ended)
    }
}

#[cfg(not(all(target_os = "linux", not(leasehold_portable))))]
impl Other {
    pub(super) fn lives(&self) -> bool {
        false
    }
}

/// What proc(5) says of a process.
#[cfg(all(target_os = "linux", not(leasehold_portable)))]
struct Process {
    has_ended: bool,
    parent: i32,
    group: i32,
    started: u64,
    user: u32,
}

#[cfg(all(target_os = "linux", not(leasehold_portable)))]
impl Process {
    /// Returns `None` if there is no such process.
    fn read(id: Pid) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;

        let folder = format!("/proc/{}", id.as_raw_nonzero());
        let stat = std::fs::read_to_string(format!("{folder}/stat")).ok()?;
        // The name before it is in parentheses and may hold anything.
        let (_, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split(' ').collect();
        Some(Self {
            has_ended: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
            user: std::fs::metadata(folder).ok()?.uid(),
        })
    }
}
