//! Callers over TLS, with valid credentials and with invalid ones.

use std::time::Duration;

use leasehold_proto::v1::{
    AcquireRequest, AcquireResponse, ForceReleaseRequest, GetLockRequest, ListLocksRequest,
    ListSessionsRequest, admin_service_client::AdminServiceClient,
    lock_service_client::LockServiceClient,
};
use leasehold_tests::{
    RawCandidate, RawSession,
    raw::{acquire_request, exclusive, release_request, with_token},
};
use tonic::{Code, Request, Status, transport::Channel};

use super::{LIMIT, credentials::put, guarded::Guarded, site::fresh_token};

const ROUNDS: usize = 4;
/// An `authorization` that does not begin as it should, and one that says it twice.
const MALFORMED: [&str; 3] = ["Basic", "Bearer Bearer", ""];

/// Somebody with a connection, and what it shows on each call: a new signed token for each where `signs`.
struct Known<'a> {
    site: &'a Guarded,
    channel: Channel,
    token: Option<&'a str>,
    signs: bool,
}

impl Known<'_> {
    fn token(&self) -> Option<String> {
        let signed = || self.site.signer.sign("JWT in use", "worker", 120);
        self.signs
            .then(signed)
            .or_else(|| self.token.map(str::to_owned))
    }

    fn says<T>(&self, message: T) -> Request<T> {
        with_token(message, self.token().as_deref())
    }
}

/// Does everything that a caller with a token, a signed token or a certificate can do.
pub(super) async fn known(site: &Guarded, at: usize) {
    let certified = site.channel(at, true).await;
    let open = site.channel(at, false).await;
    let known = |channel: &Channel, token, signs| Known {
        site,
        channel: channel.clone(),
        token,
        signs,
    };
    let worker = Some(site.worker.token.as_str());
    for (who, caller) in [
        ("token", known(&open, worker, false)),
        ("jwt", known(&open, None, true)),
        ("cert", known(&certified, None, false)),
        // Both at once: it is known by the token.
        ("both", known(&certified, worker, false)),
    ] {
        for round in 0..ROUNDS {
            work(&caller, &format!("{who}/{at}/{round}")).await;
        }
    }
    let reader = known(&open, Some(&site.reader.token), false);
    for round in 0..ROUNDS {
        denied(&reader, &format!("public/{at}/{round}")).await;
    }
}

async fn work(caller: &Known<'_>, name: &str) {
    let site = caller.site;
    let mut locks = LockServiceClient::new(caller.channel.clone());
    let acquire = AcquireRequest {
        name: name.to_owned(),
        client_name: "worker".to_owned(),
        ..AcquireRequest::default()
    };
    let held = locks.acquire(caller.says(acquire)).await.unwrap();
    let AcquireResponse { owner_id, .. } = held.into_inner();
    let mut admin = AdminServiceClient::new(caller.channel.clone());
    let get = GetLockRequest {
        name: name.to_owned(),
    };
    let shown = admin.get_lock(caller.says(get)).await.unwrap();
    site.answers.message(shown.get_ref());
    let mut session = RawSession::stream_as(caller.channel.clone(), caller.token().as_deref())
        .await
        .unwrap();
    let opened = session.say_open(LIMIT).await;
    site.answers.message(&opened);
    let other = format!("{name}/other");
    let lock = session.take_one(exclusive(&other)).await;
    let sessions = caller.says(ListSessionsRequest::default());
    let sessions = admin.list_sessions(sessions).await.unwrap();
    site.answers.message(sessions.get_ref());
    let force = ForceReleaseRequest {
        name: other,
        only: None,
    };
    let forced = admin.force_release(caller.says(force)).await.unwrap();
    site.answers.message(forced.get_ref());
    assert!(!session.release(&lock).await);
    session.close().await;
    let bad = admin.get_lock(caller.says(GetLockRequest::default()));
    site.errors.error(&bad.await.unwrap_err());
    let release = release_request(name, &owner_id);
    let released = locks.release(caller.says(release)).await.unwrap();
    assert!(released.into_inner().released);
}

/// Makes requests of a known caller that may only look.
async fn denied(caller: &Known<'_>, name: &str) {
    let mut admin = AdminServiceClient::new(caller.channel.clone());
    let list = caller.says(ListLocksRequest::default());
    let listed = admin.list_locks(list).await.unwrap();
    caller.site.answers.message(listed.get_ref());
    let acquire = acquire_request(name);
    let mut locks = LockServiceClient::new(caller.channel.clone());
    let refused = locks.acquire(caller.says(acquire)).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    caller.site.errors.error(&refused);
    let token = caller.token();
    let mut session = RawSession::stream_as(caller.channel.clone(), token.as_deref())
        .await
        .unwrap();
    session.say_open(LIMIT).await;
    let asked = session.ask_for(exclusive(name)).await;
    caller
        .site
        .errors
        .message(&session.refusal(asked, LIMIT).await);
}

/// Calls with credentials that are nearly right, and are refused.
pub(super) async fn refused(site: &Guarded, at: usize) {
    let channel = site.channel(at, false).await;
    for _ in 0..ROUNDS {
        let expired = site.signer.sign("JWT that is refused", "worker", -60);
        let nobody = site.signer.sign("JWT that is refused", "", 60);
        let longer = format!("{}0", site.worker.token);
        for token in [
            fresh_token(&site.secrets),
            longer,
            site.worker.token.to_uppercase(),
            expired,
            nobody,
            site.signer.forge(),
        ] {
            let status = call(&channel, &format!("Bearer {token}"))
                .await
                .unwrap_err();
            assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
            site.errors.error(&status);
            let streamed = RawSession::stream_as(channel.clone(), Some(&token)).await;
            site.errors.error(&streamed.unwrap_err());
            let campaign = ("an-election", b"me".as_slice());
            let channel = channel.clone();
            let candidate =
                RawCandidate::try_campaign_as(channel, Some(&token), campaign, LIMIT).await;
            site.errors.error(&candidate.unwrap_err());
        }
        // What is right, in a form that is wrong.
        let signed = site.signer.sign("JWT in use", "worker", 120);
        for token in [&site.worker.token, &signed] {
            for begin in MALFORMED {
                let status = call(&channel, &format!("{begin} {token}")).await;
                site.errors.error(&status.unwrap_err());
            }
        }
    }
}

async fn call(channel: &Channel, authorization: &str) -> Result<(), Status> {
    let mut request = Request::new(ListSessionsRequest::default());
    let authorization = authorization.parse().unwrap();
    request
        .metadata_mut()
        .insert("authorization", authorization);
    let mut admin = AdminServiceClient::new(channel.clone());
    admin.list_sessions(request).await.map(drop)
}

/// Sessions whose identity ends while they hold something: it expires, or it is taken away.
pub(super) async fn ending(site: &Guarded) {
    let short = site.signer.sign("JWT in use", "worker", 3);
    let mut sessions = Vec::new();
    for token in [&short, &site.leaving.token] {
        for at in 0..2 {
            let channel = site.channel(at, false).await;
            let mut session = RawSession::stream_as(channel, Some(token)).await.unwrap();
            session.say_open(LIMIT).await;
            session.keep_alive(Duration::from_millis(500));
            session
                .take_one(exclusive(&format!("ending/{at}/{}", sessions.len())))
                .await;
            sessions.push(session);
        }
    }
    let left = [&site.worker, &site.reader].map(|listed| listed.line.as_str());
    put(&site.file("tokens"), &left.join("\n"));
    for session in &mut sessions {
        site.errors.error(&session.end(LIMIT).await.unwrap_err());
    }
}

/// Files that hold secrets where none belong: what is wrong with them is told, and not what they hold.
pub(super) async fn bad_files(site: &Guarded) {
    let right = [&site.worker, &site.reader].map(|listed| listed.line.as_str());
    let right = right.join("\n");
    let token = &site.worker.token;
    let jwt = site.signer.sign("JWT in use", "worker", 120);
    let [key, strange] =
        [&site.server.key, &site.strange.key].map(|path| std::fs::read_to_string(path).unwrap());
    let cut = key.replacen('\n', "\n!", 3);
    let identities = "stay as they were";
    let certificates = "failed to take changed certificates over";
    let [tokens, keys] = ["tokens", "jwks.json"].map(|name| site.file(name));
    let public = site.signer.public();
    for (path, good, bad, complaint) in [
        (&tokens, &right, format!("worker {token}"), identities),
        (
            &tokens,
            &right,
            format!("{token} sha256:{token}"),
            identities,
        ),
        (&tokens, &right, jwt, identities),
        (&tokens, &right, key.clone(), identities),
        (&keys, &public, site.signer.private(), identities),
        (&keys, &public, key.clone(), identities),
        (&keys, &public, format!("{{{token}"), identities),
        (&site.server.key, &key, strange, certificates),
        (&site.server.key, &key, cut, certificates),
        (&site.server.key, &key, token.clone(), certificates),
    ] {
        let before = site.logged(complaint);
        put(path, &bad);
        site.until_logged(complaint, before).await;
        // Whoever begins or checks with them is told, too.
        let file = site.file("leasehold.toml").display().to_string();
        let [cert, key] = site.server.flags();
        let ports = ["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"];
        for more in [["check-config"].as_slice(), &ports] {
            let settings = ["--config", &file, &cert, &key];
            let arguments = [more, &settings].concat();
            assert!(!site.run("leasehold-server", &arguments, None).await);
        }
        put(path, good);
    }
}
