//! Table of every RPC and every permission: each RPC needs its own permission, and no other suffices.

use std::{collections::HashMap, future::Future, pin::Pin};

use leasehold_proto::v1::{
    AcquireRequest, CheckTokenRequest, EndSessionRequest, ForceReleaseRequest, GetLockRequest,
    GetStatusRequest, LeaderRequest, ListLocksRequest, ListSessionsRequest, LostReason,
    ObserveRequest, ReleaseRequest, RenewRequest, RequestReleaseRequest, SessionOpen,
    SessionReduce, SessionRelease, WatchLocksRequest, force_release_request::Only,
    session_request::Request, session_response::Response,
};
use leasehold_tests::raw::{
    PROMPT, at_least, each, exclusive, fresh_owner_id, resume_hold, revised, semaphore, several,
    shared, wire,
};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest,
};
use tonic_types::StatusExt;

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
    call: fn(Caller) -> Outcome,
}

macro_rules! rpc {
    ($name:literal, $needs:expr, |$caller:ident| $call:block) => {
        Rpc {
            name: $name,
            needs: $needs,
            call: |$caller: Caller| Box::pin(async move $call),
        }
    };
}

/// Returns all methods, and all requests of a session.
fn rpcs() -> Vec<Rpc> {
    use Needs::{Everywhere, Identity, Nothing, Permission};
    vec![
        rpc!("health", Nothing, |caller| {
            let mut health = HealthClient::new(caller.channel.clone());
            health
                .check(caller.says(HealthCheckRequest::default()))
                .await
                .map(drop)
        }),
        rpc!("reflection", Identity, |caller| {
            let mut reflection = ServerReflectionClient::new(caller.channel.clone());
            let list = MessageRequest::ListServices(String::new());
            let ask = ServerReflectionRequest {
                host: String::new(),
                message_request: Some(list),
            };
            let ask = caller.says(tokio_stream::once(ask));
            reflection.server_reflection_info(ask).await.map(drop)
        }),
        rpc!("Session", Identity, |caller| {
            let mut session = caller.try_session().await?;
            session.say_open(TTL).await;
            Ok(())
        }),
        rpc!("Session acquire", Permission("acquire", EITHER), |caller| {
            on_session(&caller, Request::Acquire(exclusive(NAME))).await
        }),
        rpc!(
            "Session acquire shared",
            Permission("acquire", LOCKS),
            |caller| { on_session(&caller, Request::Acquire(shared(NAME))).await }
        ),
        rpc!(
            "Session acquire semaphore",
            Permission("acquire", LOCKS),
            |caller| { on_session(&caller, Request::Acquire(semaphore("a/permits", 1, 2))).await }
        ),
        rpc!(
            "Session acquire semaphore with a revision of its limit",
            Permission("acquire", LOCKS),
            |caller| {
                let acquire = revised(1, semaphore("a/permits", 1, 2));
                on_session(&caller, Request::Acquire(acquire)).await
            }
        ),
        rpc!(
            "Session acquire what is left of a semaphore",
            Permission("acquire", LOCKS),
            |caller| {
                let acquire = at_least(1, semaphore("a/permits", 2, 2));
                on_session(&caller, Request::Acquire(acquire)).await
            }
        ),
        rpc!(
            "Session acquire several",
            Permission("acquire", EITHER),
            |caller| { on_session(&caller, Request::Acquire(several([NAME, "a/other"]))).await }
        ),
        rpc!(
            "Session acquire several, each exclusive",
            Permission("acquire", EITHER),
            |caller| {
                let both = each([exclusive(NAME), exclusive("a/other")]);
                on_session(&caller, Request::Acquire(both)).await
            }
        ),
        rpc!(
            "Session acquire several, one shared",
            Permission("acquire", LOCKS),
            |caller| {
                let both = each([shared(NAME), exclusive("a/other")]);
                on_session(&caller, Request::Acquire(both)).await
            }
        ),
        rpc!("Session release", Permission("acquire", EITHER), |caller| {
            let release = SessionRelease {
                name: NAME.to_owned(),
                owner_id: fresh_owner_id(),
            };
            on_session(&caller, Request::Release(release)).await
        }),
        rpc!("Session reduce", Permission("acquire", EITHER), |caller| {
            let reduce = SessionReduce {
                name: NAME.to_owned(),
                owner_id: fresh_owner_id(),
                permits: 1,
            };
            on_session(&caller, Request::Reduce(reduce)).await
        }),
        rpc!("Session resume", Permission("acquire", EITHER), |caller| {
            let lock = leasehold_proto::v1::GrantedLock {
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
        }),
        rpc!("Acquire", Permission("acquire", LOCKS), |caller| {
            let request = AcquireRequest {
                name: NAME.to_owned(),
                ..AcquireRequest::default()
            };
            caller.locks().acquire(caller.says(request)).await.map(drop)
        }),
        rpc!("Renew", Permission("acquire", LOCKS), |caller| {
            let request = RenewRequest {
                name: NAME.to_owned(),
                owner_id: vec![7; 16],
                ttl: None,
            };
            caller.locks().renew(caller.says(request)).await.map(drop)
        }),
        rpc!("Release", Permission("acquire", LOCKS), |caller| {
            let request = ReleaseRequest {
                name: NAME.to_owned(),
                owner_id: vec![7; 16],
            };
            caller.locks().release(caller.says(request)).await.map(drop)
        }),
        rpc!("Campaign", Permission("acquire", ELECTIONS), |caller| {
            caller.campaign(NAME).await.map(drop)
        }),
        rpc!("Leader", Permission("inspect", ELECTIONS), |caller| {
            let request = LeaderRequest {
                election: NAME.to_owned(),
            };
            caller
                .elections()
                .leader(caller.says(request))
                .await
                .map(drop)
        }),
        rpc!("Observe", Permission("inspect", ELECTIONS), |caller| {
            let request = ObserveRequest {
                election: NAME.to_owned(),
            };
            let mut stream = caller
                .elections()
                .observe(caller.says(request))
                .await?
                .into_inner();
            stream.message().await.map(drop)
        }),
        rpc!("ListLocks", Identity, |caller| {
            caller
                .admin()
                .list_locks(caller.says(ListLocksRequest::default()))
                .await
                .map(drop)
        }),
        rpc!("ListSessions", Identity, |caller| {
            caller
                .admin()
                .list_sessions(caller.says(ListSessionsRequest::default()))
                .await
                .map(drop)
        }),
        rpc!("GetStatus", Identity, |caller| {
            caller
                .admin()
                .get_status(caller.says(GetStatusRequest {}))
                .await
                .map(drop)
        }),
        rpc!("GetLock", Permission("inspect", EITHER), |caller| {
            let request = GetLockRequest {
                name: NAME.to_owned(),
            };
            caller
                .admin()
                .get_lock(caller.says(request))
                .await
                .map(drop)
        }),
        rpc!("WatchLocks", Permission("inspect", EITHER), |caller| {
            let request = WatchLocksRequest {
                prefix: NAME.to_owned(),
            };
            let mut stream = caller
                .admin()
                .watch_locks(caller.says(request))
                .await?
                .into_inner();
            stream.message().await.map(drop)
        }),
        rpc!("CheckToken", Permission("inspect", EITHER), |caller| {
            let request = CheckTokenRequest {
                name: NAME.to_owned(),
                fencing_token: 7,
            };
            caller
                .admin()
                .check_token(caller.says(request))
                .await
                .map(drop)
        }),
        rpc!("ForceRelease", Permission("administer", EITHER), |caller| {
            force_release(&caller, None).await
        }),
        rpc!(
            "ForceRelease of one holder",
            Permission("administer", EITHER),
            |caller| { force_release(&caller, Some(Only::FencingToken(7))).await }
        ),
        rpc!(
            "ForceRelease of one waiter",
            Permission("administer", EITHER),
            |caller| { force_release(&caller, Some(Only::WaiterNumber(7))).await }
        ),
        rpc!(
            "RequestRelease",
            Permission("administer", EITHER),
            |caller| {
                let request = RequestReleaseRequest {
                    name: NAME.to_owned(),
                    ..RequestReleaseRequest::default()
                };
                let mut admin = caller.admin();
                admin.request_release(caller.says(request)).await.map(drop)
            }
        ),
        // Of a session that has no lock, or none that is known. `ended` has those of which the locks are known.
        rpc!("EndSession", Everywhere("administer"), |caller| {
            let request = EndSessionRequest {
                session_id: "0".repeat(32),
            };
            let mut admin = caller.admin();
            admin.end_session(caller.says(request)).await.map(drop)
        }),
    ]
}

async fn force_release(caller: &Caller, only: Option<Only>) -> Result<(), Status> {
    let request = ForceReleaseRequest {
        name: NAME.to_owned(),
        only,
    };
    let forced = caller.admin().force_release(caller.says(request)).await;
    forced.map(drop)
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
    let mut details = tonic_types::ErrorDetails::new();
    let metadata: HashMap<_, _> = metadata.into_iter().collect();
    details.set_error_info(reason, "leasehold", metadata);
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
