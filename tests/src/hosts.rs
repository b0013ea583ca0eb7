//! Hosts of their own on one machine: network namespaces on a bridge, with partitions between them one way, and slow links.
//!
//! A namespace belongs to a process, and ends with it, so that nothing is left behind. The process that makes the network has to be in
//! a namespace of its own already ([`enter`]), which has the bridge. That needs root, and Linux's `ip`, `unshare` and `nsenter`.

use std::{
    env,
    net::Ipv4Addr,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use crate::{process::ChildProcess, wait};

/// Variable by which the process knows that it is in a namespace of its own.
const ENTERED: &str = "LEASEHOLD_TEST_NETWORK";
/// Priority of the rules that drop packets, before the table of local addresses.
const DROP: &str = "10";
/// Packets on a slow link: late, some lost, and some before others that were sent earlier.
const NETEM: &str = "netem delay 20ms 10ms loss 2% reorder 5%";
/// Priority of the table of local addresses, which comes first by default.
const LOCAL: &str = "100";

/// Runs this program again in a network namespace of its own, and returns only if that can't be done: with the reason. Returns
/// `Ok` if it is in one.
///
/// # Errors
///
/// What is missing.
pub fn enter() -> Result<(), String> {
    if env::var_os(ENTERED).is_some() {
        return Ok(());
    }
    // A trial: what is not allowed fails in it, and not later.
    let trial = "ip link add trial type bridge && nsenter --net=/proc/self/ns/net true";
    let tried = Command::new("unshare")
        .args(["--net", "sh", "-c", trial])
        .stdout(Stdio::null())
        .output();
    match tried {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => return Err(format!("unshare: {error}")),
    }
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let error = Command::new("unshare")
        .arg("--net")
        .arg(program)
        .args(env::args_os().skip(1))
        .env(ENTERED, "yes")
        .exec();
    Err(format!("unshare: {error}"))
}

/// A bridge, on which hosts are made.
#[derive(Clone, Debug)]
pub struct Network {
    next: Arc<AtomicU8>,
    hub: Host,
}

/// A host: an address, and the namespace that has it.
#[derive(Clone, Debug)]
pub struct Host {
    address: Ipv4Addr,
    /// The process to which the namespace belongs; none for this process's own.
    namespace: Option<Arc<ChildProcess>>,
}

impl Network {
    /// Makes the bridge in this process's namespace.
    ///
    /// # Panics
    ///
    /// If the process is in no namespace of its own, or the bridge can't be made.
    pub fn make() -> Self {
        assert!(
            env::var_os(ENTERED).is_some(),
            "the network is the machine's own"
        );
        let hub = Host {
            address: numbered(1),
            namespace: None,
        };
        hub.ip("link set lo up");
        // An address of its own: else it is that of a host, and changes when hosts come and go.
        hub.ip("link add hub address 02:00:00:00:00:01 type bridge");
        hub.ip(&format!("addr add {}/16 dev hub", hub.address));
        hub.ip("link set hub up");
        hub.make_droppable();
        Self {
            next: Arc::new(AtomicU8::new(2)),
            hub,
        }
    }

    /// Returns why links can't be given late, lost and reordered packets, if they can't.
    ///
    /// # Errors
    ///
    /// The error of `tc`: the kernel has no netem, or there is no `tc`.
    pub fn has_netem(&self) -> Result<(), String> {
        self.hub
            .run("tc", &format!("qdisc add dev lo root {NETEM}"))?;
        self.hub.run("tc", "qdisc del dev lo root")
    }

    /// Returns this process's own namespace.
    pub fn hub(&self) -> &Host {
        &self.hub
    }

    /// Makes a host.
    ///
    /// # Panics
    ///
    /// If it can't be made.
    pub fn host(&self) -> Host {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut sleeper = Command::new("unshare");
        sleeper.args(["--net", "sleep", "infinity"]);
        let sleeper = ChildProcess::spawn("a namespace", sleeper);
        let id = sleeper.id();
        let namespace = |process: &str| std::fs::read_link(format!("/proc/{process}/ns/net"));
        wait::until_blocking("a namespace", Duration::from_secs(5), || {
            match (namespace(&id.to_string()), namespace("self")) {
                (Ok(its), Ok(own)) if its != own => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        let host = Host {
            address: numbered(number),
            namespace: Some(Arc::new(sleeper)),
        };
        self.hub.ip(&format!(
            "link add host{number} type veth peer name eth0 netns {id}"
        ));
        self.hub.ip(&format!("link set host{number} master hub up"));
        host.ip("link set lo up");
        host.ip(&format!("addr add {}/16 dev eth0", host.address));
        host.ip("link set eth0 up");
        host.make_droppable();
        host
    }

    /// Gives this process's own namespace another address, which can be cut off by itself.
    ///
    /// # Panics
    ///
    /// If it can't have it.
    pub fn alias(&self) -> Host {
        let address = numbered(self.next.fetch_add(1, Ordering::Relaxed));
        self.hub.ip(&format!("addr add {address}/16 dev hub"));
        Host {
            address,
            namespace: None,
        }
    }
}

impl Host {
    /// Returns whether it has a namespace of its own, and with that a link.
    pub fn has_link(&self) -> bool {
        self.namespace.is_some()
    }

    /// Returns its address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Returns the command that runs a program on it, under the process id that the caller gets.
    pub fn command(&self, program: &Command) -> Command {
        let Some(process) = &self.namespace else {
            let mut same = Command::new(program.get_program());
            same.args(program.get_args());
            return same;
        };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", process.id()));
        command.arg("--").arg(program.get_program());
        command.args(program.get_args());
        command
    }

    /// Drops what comes from another host, until [`hear`](Self::hear).
    ///
    /// # Panics
    ///
    /// If the rule can't be added.
    pub fn ignore(&self, other: &Self) {
        self.rule("add", other);
    }

    /// Takes what comes from another host again.
    ///
    /// # Panics
    ///
    /// If it was not ignored.
    pub fn hear(&self, other: &Self) {
        self.rule("del", other);
    }

    /// Makes its link slow: late and lossy packets where the kernel has netem, else little room for many.
    ///
    /// # Panics
    ///
    /// If the kernel has neither.
    pub fn slow_down(&self) {
        let netem = self.run("tc", &format!("qdisc add dev eth0 root {NETEM}"));
        if let Err(first) = netem {
            let shaped = "qdisc add dev eth0 root tbf rate 256kbit burst 16kb latency 500ms";
            let second = self.run("tc", shaped);
            assert!(second.is_ok(), "{first}; {second:?}");
        }
    }

    /// Makes its link fast again.
    ///
    /// # Panics
    ///
    /// If it was not slow.
    pub fn speed_up(&self) {
        let undone = self.run("tc", "qdisc del dev eth0 root");
        assert!(undone.is_ok(), "{undone:?}");
    }

    /// Has rules come before the table of local addresses, so that they can drop what arrives.
    fn make_droppable(&self) {
        self.ip(&format!("rule add pref {LOCAL} lookup local"));
        self.ip("rule del pref 0");
    }

    fn rule(&self, verb: &str, other: &Self) {
        let (from, to) = (other.address, self.address);
        self.ip(&format!(
            "rule {verb} pref {DROP} from {from} to {to} blackhole"
        ));
    }

    fn ip(&self, arguments: &str) {
        let done = self.run("ip", arguments);
        assert!(done.is_ok(), "ip {arguments}: {done:?}");
    }

    fn run(&self, program: &str, arguments: &str) -> Result<(), String> {
        let mut command = Command::new(program);
        command.args(arguments.split(' '));
        let output = self.command(&command).output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }
}

fn numbered(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, number)
}
