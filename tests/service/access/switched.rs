//! Sources of identities that are taken away, or come, while the coordinator runs.

use std::{
    fs,
    time::{Duration, SystemTime},
};

use leasehold_tests::{Coordinator, certificates::Authority, raw::connect, usage::cpu_time};
use rustix::process::Signal;

use super::{
    signed::{RSA_PUBLIC, good_for},
    site::{Caller, Site, TTL, ends},
};

#[tokio::test]
async fn a_stream_rests_when_its_identity_expires_and_nobody_is_asked_for_one_any_more() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    fs::write(file("key.pem"), RSA_PUBLIC).unwrap();
    let config = file("leasehold.toml");
    let keys = format!("jwt-keys = {:?}\n", file("key.pem"));
    let rest = "jwt-issuer = \"https://issuer\"\njwt-audience = \"locks\"\n";
    fs::write(&config, keys + rest).unwrap();
    let mut coordinator = Coordinator::process()
        .arguments(["--config", &config])
        .start();
    let expires = SystemTime::now() + Duration::from_secs(6);
    let mine = Caller {
        channel: connect(&coordinator.endpoint()).await,
        token: Some(good_for(6)),
    };
    let mut session = mine.try_session().await.unwrap();
    // So long that it is not over for its silence while it is looked at.
    session.say_open(10 * TTL).await;
    session.keep_alive(TTL);

    fs::write(&config, "").unwrap();
    coordinator.child().signal(Signal::HUP);
    let nobody = Caller {
        token: None,
        ..mine
    };
    nobody.until_known().await;
    // A little more, so that whoever waits for that has noticed.
    let rest = expires.duration_since(SystemTime::now());
    let rest = rest.expect("it was noticed before the token is over");
    tokio::time::sleep(rest + Duration::from_millis(200)).await;
    let (before, while_it_is) = (cpu_time(coordinator.id()), Duration::from_secs(1));
    tokio::time::sleep(while_it_is).await;
    let used = cpu_time(coordinator.id()) - before;
    assert!(used < while_it_is / 4, "{used:?} of {while_it_is:?}");
    session.heartbeat().await;
}

#[tokio::test]
async fn a_client_ca_that_comes_where_there_is_no_tls_lets_nobody_in() {
    let authority = Authority::new("clients");
    let server = authority.server().issue();
    let mut site = Site::start_with("", &[]);
    let nobody = site.caller(None).await;
    let mut session = nobody.session().await;
    let mut flags: Vec<String> = server.flags().into();
    flags.push(format!("--tls-client-ca={}", authority.ca().display()));
    // TLS itself takes a restart: until then, nobody can show a certificate.
    site.reconfigure(flags);
    ends(&mut session, "UNAUTHENTICATED").await;
    nobody.is_refused("UNAUTHENTICATED").await;
}
