//! Table of every RPC and every permission: each RPC needs its own permission, and no other suffices.

use std::{future::Future, pin::Pin};

use leasehold_proto::v1::{
    CheckTokenRequest, EndSessionRequest, ForceReleaseRequest, GetLockRequest, GetStatusRequest,
    GrantedLock, LeaderRequest, ListLocksRequest, ListSessionsRequest, LostReason, ObserveRequest,
    RequestReleaseRequest, SessionOpen, SessionReduce, SessionRelease, WatchLocksRequest,
    force_release_request::Only, session_request::Request, session_response::Response,
};
use leasehold_tests::raw::{
    PROMPT, acquire_request, at_least, each, exclusive, fresh_owner_id, release_request,
    renew_request, resume_hold, revised, semaphore, several, shared, wire,
};
use prost::Message;
use tonic::{Code, Status, client::Grpc};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};
use tonic_types::{ErrorDetails, StatusExt};

use super::site::{Caller, Site, TTL, missing, reason, table};

type Outcome = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

/// Permission that an RPC needs.
#[derive(Clone, Copy)]
enum Needs {
    /// Nothing at all.
    Nothing,
    /// An identity.
    Identity,
    /// A permission, and by which keys of a rule it can be given.
    Permission(&'static str, &'static [&'static str]),
    /// A permission on every name; no caller of this table has that.
    Everywhere(&'static str),
}

const LOCKS: &[&str] = &["locks"];
const ELECTIONS: &[&str] = &["elections"];
const EITHER: &[&str] = &["locks", "elections"];
/// The name that everything is done to.
const NAME: &str = "a/name";

struct Rpc {
    name: &'static str,
    needs: Needs,
    call: Box<dyn Fn(Caller) -> Outcome>,
}

fn rpc<F>(name: &'static str, needs: Needs, call: fn(Caller) -> F) -> Rpc
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let call = Box::new(move |caller| Box::pin(call(caller)) as Outcome);
    Rpc { name, needs, call }
}

/// Returns a call of a method that takes one message; of a stream of answers, the first is read.
fn method<T: Message + Clone + 'static>(path: &'static str, needs: Needs, message: T) -> Rpc {
    let call = move |caller: Caller| {
        let message = message.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(caller.channel.clone());
            grpc.ready().await.unwrap();
            let codec = ProstCodec::<T, ()>::default();
            let path = format!("/leasehold.v1.{path}").parse().unwrap();
            let answers = grpc.server_streaming(caller.says(message), path, codec);
            answers.await?.into_inner().message().await.map(drop)
        }) as Outcome
    };
    let call = Box::new(call);
    Rpc {
        name: path,
        needs,
        call,
    }
}

/// Returns a request of a session, as if it were a call.
fn asked(name: &'static str, needs: Needs, request: Request) -> Rpc {
    let call = move |caller: Caller| {
        let request = request.clone();
        Box::pin(async move { on_session(&caller, request).await }) as Outcome
    };
    let call = Box::new(call);
    Rpc { name, needs, call }
}

/// Returns all methods, and all requests of a session.
fn rpcs() -> Vec<Rpc> {
    use Needs::{Everywhere, Identity, Nothing, Permission};
    let (some, any) = (Permission("acquire", LOCKS), Permission("acquire", EITHER));
    let (look, administer) = (
        Permission("inspect", EITHER),
        Permission("administer", EITHER),
    );
    let name = || NAME.to_owned();
    let permits = || semaphore("a/permits", 1, 2);
    let acquire = Request::Acquire;
    let release = SessionRelease {
        name: name(),
        owner_id: fresh_owner_id(),
        expired: false,
    };
    let reduce = SessionReduce {
        name: name(),
        owner_id: fresh_owner_id(),
        permits: 1,
    };
    let forced = |only| ForceReleaseRequest { name: name(), only };
    let asked_to_release = RequestReleaseRequest {
        name: name(),
        ..RequestReleaseRequest::default()
    };
    let check_token = CheckTokenRequest {
        name: name(),
        fencing_token: 7,
    };
    // Of a session that has no lock, or none that is known. `ended` has those of which the locks are known.
    let end_session = EndSessionRequest {
        session_id: "0".repeat(32),
    };
    let (leader, observe) = (
        LeaderRequest { election: name() },
        ObserveRequest { election: name() },
    );
    let watch = WatchLocksRequest { prefix: name() };
    vec![
        rpc("health", Nothing, |caller| async move {
            let mut health = HealthClient::new(caller.channel.clone());
            let check = caller.says(HealthCheckRequest::default());
            health.check(check).await.map(drop)
        }),
        rpc("reflection", Identity, reflection),
        rpc("Session", Identity, |caller| async move {
            let mut session = caller.try_session().await?;
            session.say_open(TTL).await;
            Ok(())
        }),
        asked("acquire", any, acquire(exclusive(NAME))),
        asked("acquire shared", some, acquire(shared(NAME))),
        asked("acquire semaphore", some, acquire(permits())),
        asked(
            "acquire semaphore with a revision of its limit",
            some,
            acquire(revised(1, permits())),
        ),
        asked(
            "acquire what is left of a semaphore",
            some,
            acquire(at_least(1, semaphore("a/permits", 2, 2))),
        ),
        asked("acquire several", any, acquire(several([NAME, "a/other"]))),
        asked(
            "acquire several, each exclusive",
            any,
            acquire(each([exclusive(NAME), exclusive("a/other")])),
        ),
        asked(
            "acquire several, one shared",
            some,
            acquire(each([shared(NAME), exclusive("a/other")])),
        ),
        asked("release", any, Request::Release(release)),
        asked("reduce", any, Request::Reduce(reduce)),
        rpc("resume", any, resume),
        method("LockService/Acquire", some, acquire_request(NAME)),
        method("LockService/Renew", some, renew_request(NAME, &[7; 16])),
        method("LockService/Release", some, release_request(NAME, &[7; 16])),
        rpc(
            "Campaign",
            Permission("acquire", ELECTIONS),
            |caller| async move { caller.campaign(NAME).await.map(drop) },
        ),
        method(
            "ElectionService/Leader",
            Permission("inspect", ELECTIONS),
            leader,
        ),
        method(
            "ElectionService/Observe",
            Permission("inspect", ELECTIONS),
            observe,
        ),
        method(
            "AdminService/ListLocks",
            Identity,
            ListLocksRequest::default(),
        ),
        method(
            "AdminService/ListSessions",
            Identity,
            ListSessionsRequest::default(),
        ),
        method("AdminService/GetStatus", Identity, GetStatusRequest {}),
        method(
            "AdminService/GetLock",
            look,
            GetLockRequest { name: name() },
        ),
        method("AdminService/WatchLocks", look, watch),
        method("AdminService/CheckToken", look, check_token),
        method("AdminService/ForceRelease", administer, forced(None)),
        method(
            "AdminService/ForceRelease",
            administer,
            forced(Some(Only::FencingToken(7))),
        ),
        method(
            "AdminService/ForceRelease",
            administer,
            forced(Some(Only::WaiterNumber(7))),
        ),
        method("AdminService/RequestRelease", administer, asked_to_release),
        method(
            "AdminService/EndSession",
            Everywhere("administer"),
            end_session,
        ),
    ]
}

async fn reflection(caller: Caller) -> Result<(), Status> {
    let mut reflection = ServerReflectionClient::new(caller.channel.clone());
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let ask = caller.says(tokio_stream::once(ask));
    reflection.server_reflection_info(ask).await.map(drop)
}

async fn resume(caller: Caller) -> Result<(), Status> {
    let lock = GrantedLock {
        name: NAME.to_owned(),
        owner_id: fresh_owner_id(),
        fencing_token: 7,
        hold_count: 1,
        permits: 0,
    };
    let open = SessionOpen {
        ttl: wire(TTL),
        resume: vec![resume_hold(&lock)],
        ..SessionOpen::default()
    };
    let mut session = caller.try_session().await?;
    let id = session.ask_open(open).await;
    let resumed = session.opened(id).await;
    let refused = &resumed.refused[0];
    if refused.reason() != LostReason::PermissionRevoked {
        return Ok(());
    }
    // It is no error of the stream, and as good as one.
    let what = [("permission", "acquire"), ("name", &refused.name)];
    let what = what.map(|(key, value)| (key.to_owned(), value.to_owned()));
    Err(failed(Code::PermissionDenied, "PERMISSION_DENIED", what))
}

/// Sends a request on a session and returns its answer, as if it were a call.
async fn on_session(caller: &Caller, request: Request) -> Result<(), Status> {
    let mut session = caller.try_session().await?;
    session.say_open(TTL).await;
    let id = session.send(request).await;
    match session.answer(id, PROMPT).await {
        Response::Error(failure) => {
            let code = Code::from_i32(failure.code);
            Err(failed(code, &failure.reason, failure.metadata))
        }
        _ => Ok(()),
    }
}

/// Returns the failure as the status of a call.
fn failed(
    code: Code,
    reason: &str,
    metadata: impl IntoIterator<Item = (String, String)>,
) -> Status {
    let metadata = metadata
        .into_iter()
        .collect::<std::collections::HashMap<_, _>>();
    let details = ErrorDetails::with_error_info(reason, "leasehold", metadata);
    Status::with_error_details(code, "refused", details)
}

#[tokio::test]
async fn every_rpc_needs_just_its_permission() {
    let mut rules = String::new();
    let mut who = Vec::new();
    for permission in ["acquire", "inspect", "administer"] {
        for place in EITHER {
            let name = format!("{permission}-{place}");
            rules += &table(&format!("token:{name}"), permission, place, "a/");
            // Beside what is asked for, everything is permitted: that must not help.
            for other in ["acquire", "inspect", "administer"] {
                rules += &table(&format!("token:{name}"), other, place, "b/");
                rules += &table("token:beside", other, place, "a/name/");
            }
            who.push((name, Some((permission, *place))));
        }
    }
    who.push(("beside".to_owned(), None));
    who.push(("nothing".to_owned(), None));
    let site = Site::start(&rules);
    let mut callers = Vec::new();
    for (name, has) in who {
        callers.push((site.newcomer(&name).await, name, has));
    }
    let nobody = site.caller(None).await;
    for Rpc {
        name: rpc,
        needs,
        call,
    } in rpcs()
    {
        let outcome = call(nobody.clone()).await;
        match needs {
            Needs::Nothing => assert!(outcome.is_ok(), "{rpc} by nobody: {outcome:?}"),
            _ => {
                let refused = outcome.expect_err(rpc);
                assert_eq!(refused.code(), Code::Unauthenticated, "{rpc}: {refused:?}");
                assert_eq!(reason(&refused), "UNAUTHENTICATED", "{rpc}");
            }
        }
        for (caller, name, has) in &callers {
            let is_enough = match needs {
                Needs::Nothing | Needs::Identity => true,
                Needs::Permission(permission, places) => {
                    has.is_some_and(|(had, place)| had == permission && places.contains(&place))
                }
                Needs::Everywhere(_) => false,
            };
            let outcome = call(caller.clone()).await;
            if is_enough {
                assert!(outcome.is_ok(), "{rpc} by {name}: {outcome:?}");
                continue;
            }
            let refused = outcome.expect_err(&format!("{rpc} by {name}"));
            let (permission, on) = match needs {
                Needs::Permission(permission, _) if rpc.contains("semaphore") => {
                    (permission, "a/permits")
                }
                Needs::Permission(permission, _) => (permission, NAME),
                Needs::Everywhere(permission) => (permission, ""),
                Needs::Nothing | Needs::Identity => unreachable!("an identity was enough"),
            };
            assert_eq!(
                missing(&refused),
                (permission.to_owned(), on.to_owned()),
                "{rpc} by {name}"
            );
        }
    }
}

#[tokio::test]
async fn each_of_several_names_needs_a_permission_for_its_own_mode() {
    let rules = table("token:mine", "acquire", "elections", "a/")
        + &table("token:mine", "acquire", "locks", "b/");
    let site = Site::start(&rules);
    let mine = site.newcomer("mine").await;
    let both = each([exclusive("a/1"), shared("b/1")]);
    assert!(on_session(&mine, Request::Acquire(both)).await.is_ok());
    for (denied, locks) in [
        ("a/2", [exclusive("a/1"), shared("a/2")]),
        ("a/1", [shared("a/1"), exclusive("b/1")]),
        ("c", [shared("b/1"), exclusive("c")]),
    ] {
        let asked = Request::Acquire(each(locks));
        let refused = on_session(&mine, asked).await.unwrap_err();
        assert_eq!(missing(&refused), ("acquire".to_owned(), denied.to_owned()));
    }
}

#[tokio::test]
async fn without_identities_everybody_may_do_everything() {
    let site = Site::start_with("", &[]);
    let anybody = site.caller(None).await;
    // What is shown all the same is none of its business.
    let somebody = site.caller(Some("whatever")).await;
    for Rpc { name, call, .. } in rpcs() {
        for caller in [&anybody, &somebody] {
            let outcome = call(caller.clone()).await;
            assert!(outcome.is_ok(), "{name}: {outcome:?}");
        }
    }
}
