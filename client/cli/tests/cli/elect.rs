//! `elect`: runs the command while its process leads, and only then.

use std::{
    io::{Read, Write},
    net::TcpStream,
    os::unix::process::ExitStatusExt,
};

use leasehold_client::Client;
use leasehold_tests::{
    ChildProcess, Coordinator, RedisProxy, RedisServer,
    ports::free_port,
    process::Lines,
    redis_proxy::{Call, Loss},
    wait,
};
use rustix::process::Signal;

use super::{LIMIT, lives, output, served, spawn_merged, started, until_waiters};

/// Says its token, and goes on until it is killed.
const WORK: &str = "echo token $LEASEHOLD_FENCING_TOKEN; while :; do sleep 0.01; done";

/// Starts `leasehold elect e [OPTIONS] -- sh -c SCRIPT`; the lines are the command's, and what the tool says itself.
fn elect(endpoint: &str, options: &[&str], script: &str) -> (ChildProcess, Lines) {
    let args = [&["elect", "e"], options, &["--", "sh", "-c", script]].concat();
    spawn_merged(endpoint, &args)
}

/// Returns the token that the command prints next.
async fn token(lines: &mut Lines) -> i64 {
    let (_, line) = lines.expect("token ", LIMIT).await;
    line.trim_start_matches("token ").parse().unwrap()
}

#[tokio::test]
async fn the_command_is_told_what_it_leads_and_its_exit_code_is_passed_on() {
    let (_coordinator, endpoint) = started();
    let script = "echo $LEASEHOLD_ELECTION $LEASEHOLD_LOCK_NAME $LEASEHOLD_FENCING_TOKEN; \
                  echo $LEASEHOLD_LOCKS; \"$0\" leader e; exit 7";
    let tool = env!("CARGO_BIN_EXE_leasehold");
    let args = [
        "elect",
        "e",
        "--value",
        "10.0.0.7",
        "--client-name",
        "me",
        "--",
        "sh",
        "-c",
        script,
        tool,
    ];
    let ran = output(&endpoint, &args);
    ran.ended(7);
    let said = ran.out;
    let mut lines = said.lines();
    let told: Vec<_> = lines.next().unwrap().split(' ').collect();
    let [election, name, token] = told[..] else {
        panic!("{said}");
    };
    assert_eq!((election, name), ("e", "e"));
    assert_eq!(lines.next().unwrap(), format!("{{\"e\":{token}}}"));
    let leader: Vec<_> = lines.collect();
    assert!(leader.contains(&"leader       me"), "{said}");
    assert!(leader.contains(&"value        10.0.0.7"), "{said}");
    assert!(
        leader.contains(&&*format!("token        {token}")),
        "{said}"
    );
    // It has resigned.
    output(&endpoint, &["leader", "e"]).ended(4);
}

#[test]
fn a_nested_command_does_not_see_another_election() {
    let coordinator = Coordinator::in_process();
    let inner = "echo [$LEASEHOLD_ELECTION] $LEASEHOLD_LOCK_NAME";
    let script = format!("\"$0\" run a -- sh -c '{inner}'");
    let tool = env!("CARGO_BIN_EXE_leasehold");
    let args = ["elect", "e", "--", "sh", "-c", &script, tool];
    let ran = output(&coordinator.endpoint(), &args);
    assert_eq!(ran.out, "[] a\n", "{}", ran.err);
}

#[tokio::test]
async fn a_deposed_leader_is_stopped_and_runs_again_once_elected_again() {
    let (_coordinator, endpoint, client) = served().await;
    let script = format!("echo pid $$; {WORK}");
    let (mut elect, mut lines) = elect(&endpoint, &[], &script);
    let mut last = 0;
    for _ in 0..3 {
        let (_, pid) = lines.expect("pid ", LIMIT).await;
        let token = token(&mut lines).await;
        assert!(token > last);
        last = token;
        let next = tokio::spawn(client.election("e").campaign("other"));
        until_waiters(&client, "e", 1).await;
        client.admin().force_release("e").await.unwrap();
        let leadership = next.await.unwrap().unwrap();
        // It is stopped, and campaigns, while another one leads.
        lines.expect("leasehold: campaigning again", LIMIT).await;
        assert!(!lives(pid.trim_start_matches("pid ")));
        until_waiters(&client, "e", 1).await;
        leadership.resign().await.unwrap();
    }
    token(&mut lines).await;
    elect.terminate();
    assert_eq!(elect.wait(LIMIT).await.code(), Some(143));
}

#[tokio::test]
async fn once_is_once() {
    let (_coordinator, endpoint, client) = served().await;
    let (mut elect, mut lines) = elect(&endpoint, &["--once"], WORK);
    token(&mut lines).await;
    client.admin().force_release("e").await.unwrap();
    assert_eq!(elect.wait(LIMIT).await.code(), Some(70));
}

#[tokio::test]
async fn a_signal_ends_it_at_once_while_it_waits() {
    let (_coordinator, endpoint, client) = served().await;
    let _leadership = client.election("e").campaign("").await.unwrap();
    for (signal, code, died_of) in [
        (Signal::TERM, Some(143), None),
        (Signal::INT, None, Some(libc::SIGINT)),
    ] {
        let (mut elect, mut lines) = elect(&endpoint, &[], WORK);
        until_waiters(&client, "e", 1).await;
        let waits = r#"leasehold: waiting to lead "e""#;
        lines.expect(waits, LIMIT).await;
        elect.signal(signal);
        let status = elect.wait(LIMIT).await;
        assert_eq!((status.code(), status.signal()), (code, died_of));
        until_waiters(&client, "e", 0).await;
    }
}

#[tokio::test]
async fn a_signal_is_passed_on_and_ends_it_with_the_command() {
    let (_coordinator, endpoint) = started();
    let script = "trap 'echo reloaded' HUP; trap 'exit 42' TERM; echo ready; \
                  while :; do sleep 0.01; done";
    let (mut elect, mut lines) = elect(&endpoint, &[], script);
    lines.expect("ready", LIMIT).await;
    elect.signal(Signal::HUP);
    lines.expect("reloaded", LIMIT).await;
    elect.terminate();
    assert_eq!(elect.wait(LIMIT).await.code(), Some(42));
    assert_eq!(output(&endpoint, &["leader", "e"]).code, Some(4));
}

#[tokio::test]
async fn a_leader_asked_to_end_does_not_campaign_again_after_a_loss() {
    let (_coordinator, endpoint, client) = served().await;
    let script = "trap 'echo heard' TERM; echo ready; while :; do sleep 0.01; done";
    let (mut elect, mut lines) = elect(&endpoint, &[], script);
    lines.expect("ready", LIMIT).await;
    elect.terminate();
    lines.expect("heard", LIMIT).await;
    client.admin().force_release("e").await.unwrap();
    assert_eq!(elect.wait(LIMIT).await.code(), Some(143));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_does_not_answer_is_waited_for_and_that_is_said_once() {
    let redis = RedisServer::start();
    let proxy = RedisProxy::start(redis.address()).await;
    let store = redis.url_through(proxy.address());
    let coordinator = Coordinator::in_process_with(["--store", &store, "--store-timeout", "500ms"]);
    coordinator.ready().await;
    // Of several attempts, each takes its time to fail.
    for _ in 0..6 {
        let of_the_election = Call::With(b"unanswered".to_vec());
        proxy.lose(of_the_election, Loss::RequestLate);
    }
    let args = ["elect", "unanswered", "--", "sh", "-c", WORK];
    let (mut elect, mut lines) = spawn_merged(&coordinator.endpoint(), &args);
    let mut said = Vec::new();
    while !said.iter().any(|line: &String| line.starts_with("token ")) {
        let (_, line) = lines.next(LIMIT).await.unwrap();
        // It says so after half a second, as long as the first attempt takes.
        if !line.starts_with("leasehold: waiting to lead") {
            said.push(line);
        }
    }
    let [away, again, _token] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(away.ends_with("retrying until a coordinator serves"));
    assert_eq!(again, "leasehold: connected again");
    assert!(proxy.counts().lost >= 2, "{:?}", proxy.counts());
    elect.kill();
}

#[tokio::test]
async fn each_term_is_watched_over_with_the_ttl_that_it_has() {
    let address = format!("127.0.0.1:{}", free_port());
    let start = |ttl: &str| {
        let arguments = ["--listen", &address, "--default-ttl", ttl];
        Coordinator::process().arguments(arguments).start()
    };
    let mut coordinator = start("1m");
    // With a TTL of a minute it is stopped when five seconds are left: with one of three that is always.
    let script = "echo ready; sleep 1; echo is left alone; while :; do sleep 0.01; done";
    let (mut elect, mut lines) = elect(&coordinator.endpoint(), &[], script);
    lines.expect("is left alone", LIMIT).await;
    coordinator.kill();
    let _coordinator = start("3s");
    lines.expect("is left alone", LIMIT).await;
    elect.terminate();
    assert_eq!(elect.wait(LIMIT).await.code(), Some(143));
}

/// Asks whether the process leads, and returns the status of the answer.
fn ready(address: &str) -> u16 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(stream, "GET /anything HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap();
    status.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_for_load_balancers_answers_200_only_while_its_process_leads() {
    const SAYS: &str = "leasehold: http://";
    let (_coordinator, endpoint) = started();
    let options = ["--ready-listen", "127.0.0.1:0"];
    let mut tools = Vec::new();
    for _ in 0..2 {
        let (tool, mut lines) = elect(&endpoint, &options, WORK);
        let (_, line) = lines.expect(SAYS, LIMIT).await;
        let address = line.trim_start_matches(SAYS).split(' ').next().unwrap();
        let address = address.to_owned();
        if tools.is_empty() {
            token(&mut lines).await;
        }
        tools.push((tool, lines, address));
    }
    let client = Client::connect(endpoint.as_str()).await.unwrap();
    until_waiters(&client, "e", 1).await;
    assert_eq!(ready(&tools[0].2), 200);
    assert_eq!(ready(&tools[1].2), 503);
    // An operator takes the leadership: the other process leads.
    client.admin().force_release("e").await.unwrap();
    let (_, lines, _) = &mut tools[1];
    token(lines).await;
    assert_eq!(ready(&tools[1].2), 200);
    wait::until("the former leader", LIMIT, || async {
        let status = ready(&tools[0].2);
        (status == 503).then_some(()).ok_or(status)
    })
    .await;
    // Another process has the address.
    let taken = ["elect", "e", "--ready-listen", &tools[0].2, "--", "true"];
    let taken = output(&endpoint, &taken);
    taken.ended(1).says(&["--ready-listen"]);
}
