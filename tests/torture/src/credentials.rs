//! Credentials of a run over TLS: authorities, certificates, tokens and permissions, and their change while traffic goes on.
//!
//! Coordinators and clients identify one another by certificates. A third of the clients also shows a token of the token file, and
//! a third a signed token, which is good for [`SIGNED_FOR`] and replaced every [`SIGNED_EACH`].

mod files;
mod seat;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use leasehold_client::{Admin, Client};
use leasehold_proto::v1::{GetStatusRequest, admin_service_client::AdminServiceClient};
use leasehold_tests::{Authority, certificates::replace, wait};
use leasehold_torture::shown::{self, Shown};
use rcgen::KeyPair;
use serde_json::json;
use tokio::time::sleep;

use self::{
    files::{put, read, token, write_tokens},
    seat::{Proof, Seat},
};
use crate::{
    TTL,
    record::{Effects, Record},
};

/// Time for which the former credentials stay valid beside the new ones. A Rust client moves its sessions within six seconds, after
/// the answers that they wait for; a client on stubs does so between two holds.
const OVERLAP: Duration = Duration::from_secs(10);
/// Life of a signed token.
const SIGNED_FOR: Duration = Duration::from_secs(25);
/// Interval in which signed tokens are replaced.
const SIGNED_EACH: Duration = Duration::from_secs(9);
/// Longest time until every coordinator uses changed files.
const NOTICED: Duration = Duration::from_secs(20);
/// Files of the coordinators' certificate and its key.
const SERVER: [&str; 2] = ["server.pem", "server.key"];
const ISSUER: &str = "https://issuer.example";
const AUDIENCE: &str = "torture";

/// The credentials of coordinators, of the clients by their seats, and of the harness.
pub(crate) struct Credentials {
    folder: PathBuf,
    seats: Vec<Seat>,
    signer: EncodingKey,
    state: Mutex<State>,
}

struct State {
    /// Issues the coordinators' certificates.
    servers: Authority,
    /// Issues the clients' certificates.
    clients: Authority,
    /// Lines of the token file, by the seat.
    tokens: Vec<(usize, String)>,
    /// Name of the client at each seat.
    names: Vec<String>,
    /// The rights that are taken away at present.
    withdrawn: Option<Withdrawn>,
}

/// Rights of a seat that are taken away, with the faults that the history has of it: one for each client that has sat there since.
struct Withdrawn {
    seat: usize,
    what: &'static str,
    faults: Vec<u64>,
}

impl Withdrawn {
    fn concern(&mut self, client: &str, record: &Record) {
        let effects = Effects::revoking(client.to_owned());
        self.faults.push(record.begin(self.what, client, &effects));
    }
}

/// Change of credentials that costs nobody anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rotation {
    Certificates,
    ServerAuthority,
    ClientAuthority,
    Tokens,
}

impl Rotation {
    pub(crate) const ALL: [Self; 4] = [
        Self::ClientAuthority,
        Self::Tokens,
        Self::ServerAuthority,
        Self::Certificates,
    ];
}

impl Credentials {
    /// Makes them for so many clients of coordinators, with files below `folder`. Signed tokens are replaced until they are dropped.
    ///
    /// # Panics
    ///
    /// If a file can't be written.
    pub(crate) fn start(folder: PathBuf, clients: usize) -> Arc<Self> {
        let proofs = [Proof::Certificate, Proof::Token, Proof::Signed];
        let mut seats: Vec<_> = (0..clients)
            .map(|number| Seat::new(&folder, &format!("seat-{number}"), proofs[number % 3]))
            .collect();
        seats.push(Seat::new(&folder, "harness", Proof::Certificate));
        let (servers, authority) = (Authority::new("servers"), Authority::new("clients"));
        let key = KeyPair::generate().expect("a key can be made");
        let credentials = Self {
            signer: EncodingKey::from_ec_pem(key.serialize_pem().as_bytes()).expect("an EC key"),
            state: Mutex::new(State {
                servers,
                clients: authority,
                tokens: Vec::new(),
                names: vec![String::new(); seats.len()],
                withdrawn: None,
            }),
            folder,
            seats,
        };
        replace(&credentials.file("jwt.pem"), &key.public_key_pem());
        let mut state = credentials.state();
        credentials.serve_with(&state.servers);
        for (number, seat) in credentials.seats.iter().enumerate() {
            replace(&seat.folder.join(shown::CA), &read(&state.servers.ca()));
            seat.hand_certificate(&state.clients);
            if seat.proof == Proof::Token {
                let (token, line) = token(&seat.name);
                replace(&seat.folder.join(shown::TOKEN), &token);
                state.tokens.push((number, line));
            }
        }
        replace(&credentials.file("clients.pem"), &read(&state.clients.ca()));
        credentials.list_tokens(&state);
        drop(state);
        credentials.sign();
        credentials.permit(None);
        let credentials = Arc::new(credentials);
        let signing = Arc::downgrade(&credentials);
        tokio::spawn(async move {
            loop {
                sleep(SIGNED_EACH).await;
                let Some(credentials) = signing.upgrade() else {
                    return;
                };
                credentials.sign();
            }
        });
        credentials
    }

    /// Returns the flags of a coordinator.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        for (flag, file) in [
            ("tls-cert", SERVER[0]),
            ("tls-key", SERVER[1]),
            ("tls-client-ca", "clients.pem"),
            ("token-file", "tokens"),
            ("jwt-keys", "jwt.pem"),
            ("config", "permissions.toml"),
        ] {
            flags.push(format!("--{flag}={}", self.file(file).display()));
        }
        flags.push(format!("--jwt-issuer={ISSUER}"));
        flags.push(format!("--jwt-audience={AUDIENCE}"));
        flags
    }

    /// Returns the folder with a client's files.
    pub(crate) fn folder(&self, seat: usize) -> &Path {
        &self.seats[seat].folder
    }

    /// Notes the name of the client that has a seat now, and that it has no rights there if they are taken away.
    pub(crate) fn seated(&self, seat: usize, name: &str, record: &Record) {
        let mut state = self.state();
        name.clone_into(&mut state.names[seat]);
        if let Some(withdrawn) = state
            .withdrawn
            .as_mut()
            .filter(|withdrawn| withdrawn.seat == seat)
        {
            withdrawn.concern(name, record);
        }
    }

    /// Chooses a seat by a number.
    pub(crate) fn choose(&self, any: u32) -> usize {
        any as usize % (self.seats.len() - 1)
    }

    /// Records that the rights of a seat are about to end.
    pub(crate) fn withdraw(&self, seat: usize, what: &'static str, record: &Record) {
        let mut state = self.state();
        let mut withdrawn = Withdrawn {
            seat,
            what,
            faults: Vec::new(),
        };
        withdrawn.concern(&state.names[seat], record);
        state.withdrawn = Some(withdrawn);
    }

    /// Records that they are there again.
    pub(crate) fn restored(&self, record: &Record) {
        let withdrawn = self.state().withdrawn.take();
        for fault in withdrawn.into_iter().flat_map(|withdrawn| withdrawn.faults) {
            record.end(fault);
        }
    }

    /// Returns the harness's way to look into a coordinator.
    pub(crate) fn admin(&self, endpoint: &str) -> Admin {
        let builder = shown::follow(Client::builder(), &self.harness().folder);
        builder.admin(endpoint).expect("a URL and credentials")
    }

    /// Replaces credentials in the order in which nobody loses anything, and waits until the former ones are worth nothing and
    /// whoever had relied on them would have lost what it holds.
    pub(crate) async fn rotate(&self, what: Rotation, coordinators: &[String]) {
        match what {
            Rotation::Certificates => {
                self.renew_certificates();
                sleep(OVERLAP).await;
            }
            Rotation::ServerAuthority => self.rotate_servers(coordinators).await,
            Rotation::ClientAuthority => self.rotate_clients(coordinators).await,
            Rotation::Tokens => self.rotate_tokens(coordinators).await,
        }
        sleep(TTL).await;
    }

    fn renew_certificates(&self) {
        let state = self.state();
        self.serve_with(&state.servers);
        for seat in &self.seats {
            seat.hand_certificate(&state.clients);
        }
    }

    /// Has clients trust both authorities, coordinators serve with a certificate of the new one, and clients trust that alone.
    async fn rotate_servers(&self, coordinators: &[String]) {
        let next = Authority::new("servers");
        let (old_ca, new_ca) = (read(&self.state().servers.ca()), read(&next.ca()));
        let trust = |ca: &str| {
            for seat in &self.seats {
                replace(&seat.folder.join(shown::CA), ca);
            }
        };
        trust(&format!("{old_ca}{new_ca}"));
        self.serve_with(&next);
        let mut shown = self.shown();
        shown.ca.clone_from(&new_ca);
        until_let_in(
            coordinators,
            "the new certificate to be served",
            &shown,
            true,
        )
        .await;
        trust(&new_ca);
        self.state().servers = next;
        sleep(OVERLAP).await;
    }

    /// Has coordinators trust both authorities, clients show certificates of the new one, and coordinators trust that alone.
    async fn rotate_clients(&self, coordinators: &[String]) {
        let next = Authority::new("clients");
        let (old_ca, new_ca) = (read(&self.state().clients.ca()), read(&next.ca()));
        let former = self.shown();
        replace(&self.file("clients.pem"), &format!("{old_ca}{new_ca}"));
        let leaf = next.client("harness").issue();
        let mut shown = former.clone();
        (shown.certificate, shown.key) = (read(&leaf.cert), read(&leaf.key));
        until_let_in(coordinators, "the new authority to count", &shown, true).await;
        for seat in &self.seats {
            seat.hand_certificate(&next);
        }
        self.state().clients = next;
        sleep(OVERLAP).await;
        replace(&self.file("clients.pem"), &new_ca);
        let no_more = "the former authority to count no more";
        until_let_in(coordinators, no_more, &former, false).await;
    }

    /// Lists new tokens beside the old ones, hands them out, and lets the old ones expire.
    async fn rotate_tokens(&self, coordinators: &[String]) {
        let former = self.state().tokens.clone();
        let fresh: Vec<_> = former
            .iter()
            .map(|(seat, _)| (*seat, token(&self.seats[*seat].name)))
            .collect();
        let lines = fresh.iter().map(|(seat, (_, line))| (*seat, line.clone()));
        self.change_tokens(|tokens| tokens.extend(lines));
        let mut shown = self.shown();
        for (_, (token, _)) in &fresh {
            shown.token = Some(token.clone());
        }
        until_let_in(coordinators, "the new tokens to be known", &shown, true).await;
        for (seat, (token, _)) in &fresh {
            replace(&self.seats[*seat].folder.join(shown::TOKEN), token);
        }
        let expires = humantime::format_rfc3339_millis(SystemTime::now() + OVERLAP);
        self.change_tokens(|tokens| {
            for entry in tokens.iter_mut().filter(|entry| former.contains(entry)) {
                entry.1 = format!("{} expires={expires}", entry.1);
            }
        });
        sleep(OVERLAP + TTL).await;
        self.change_tokens(|tokens| tokens.retain(|(_, line)| !line.contains("expires=")));
    }

    /// Takes the permissions of a seat away, or gives everything back. Coordinators take the file over when they are told so.
    pub(crate) fn permit(&self, without: Option<usize>) {
        let (harness, clients) = self.seats.split_last().expect("the harness has a seat");
        let clients = clients.iter().enumerate();
        let permitted = clients.filter(|(number, _)| Some(*number) != without);
        let identities: Vec<_> = permitted.map(|(_, seat)| seat.identity()).collect();
        let text = format!(
            "[[permission]]\nidentities = {identities:?}\nallow = [\"acquire\"]\nlocks = [\"torture/\"]\n\n\
             [[permission]]\nidentities = [{:?}]\nallow = [\"inspect\", \"administer\"]\nlocks = [\"\"]\nelections = [\"\"]\n",
            harness.identity()
        );
        replace(&self.file("permissions.toml"), &text);
    }

    /// Returns whether the client at a seat is known by a token of the token file.
    pub(crate) fn has_token(&self, seat: usize) -> bool {
        self.seats[seat].proof == Proof::Token
    }

    /// Takes the tokens of a seat out of the token file.
    pub(crate) fn take_token(&self, seat: usize) {
        let state = self.state();
        let others = state.tokens.iter().filter(|(of, _)| *of != seat);
        write_tokens(&self.file("tokens"), others);
    }

    /// Puts all tokens into the token file.
    pub(crate) fn give_tokens(&self) {
        self.list_tokens(&self.state());
    }

    /// Changes the lines of the token file.
    fn change_tokens(&self, change: impl FnOnce(&mut Vec<(usize, String)>)) {
        let mut state = self.state();
        change(&mut state.tokens);
        self.list_tokens(&state);
    }

    fn list_tokens(&self, state: &State) {
        write_tokens(&self.file("tokens"), state.tokens.iter());
    }

    /// Gives new signed tokens to those who show one.
    fn sign(&self) {
        let expires = SystemTime::now() + SIGNED_FOR;
        let expires = expires.duration_since(UNIX_EPOCH).unwrap().as_secs();
        for seat in self.seats.iter().filter(|seat| seat.proof == Proof::Signed) {
            let claims = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": seat.name, "exp": expires});
            let signed =
                jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, &self.signer);
            let signed = signed.expect("it can be signed");
            replace(&seat.folder.join(shown::TOKEN), &signed);
        }
    }

    /// Has coordinators serve with a new certificate of this authority.
    fn serve_with(&self, authority: &Authority) {
        let issued = authority.server_for(&[shown::SERVER_NAME]).issue();
        put(&issued, &self.folder, SERVER);
    }

    fn harness(&self) -> &Seat {
        self.seats.last().expect("the harness has a seat")
    }

    /// Returns what the harness shows now.
    fn shown(&self) -> Shown {
        Shown::read(&self.harness().folder).expect("the files can be read")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until each coordinator lets in, or does not, who shows this.
async fn until_let_in(coordinators: &[String], what: &str, shown: &Shown, wanted: bool) {
    for coordinator in coordinators {
        wait::until(what, NOTICED, || async {
            let asked = ask(shown, coordinator).await;
            if asked.is_ok() == wanted {
                Ok(())
            } else {
                Err(asked)
            }
        })
        .await;
    }
}

/// Asks a coordinator for what it tells every caller that it knows.
async fn ask(shown: &Shown, coordinator: &str) -> anyhow::Result<()> {
    let channel = shown.dial(coordinator)?.connect().await?;
    let request = shown.authorize(GetStatusRequest::default())?;
    let asked = AdminServiceClient::new(channel).get_status(request).await;
    asked.map(drop).context("the coordinator refused")
}
