//! States of Redis, one drill for each.

use std::{collections::BTreeSet, fs, io::Write, net::TcpStream};

use leasehold_tests::{Authority, Cluster, RedisServer, Replicas, ports::free_port, wait};

use super::{
    page::rows,
    site::{Drill, LIMIT},
};

/// Declares the drills, and checks that they are all of the page.
macro_rules! drills {
    ($($drill:ident $finding:literal;)*) => {
        mod each {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $drill() {
                Box::pin(super::outages::$drill($finding)).await;
            })*
        }

        #[test]
        fn the_page_has_no_other() {
            let drilled = BTreeSet::from([$($finding),*]);
            let listed: BTreeSet<_> = rows().iter().map(|row| row.finding).collect();
            assert_eq!(drilled, listed);
        }
    };
}

drills! {
    the_disk_fails "disk-fails";
    the_memory_is_full "out-of-memory";
    a_command_is_not_permitted "redis-permission";
    a_command_was_renamed "command-missing";
    redis_wants_replicas "replica-away";
    replicas_do_not_acknowledge "replica-away";
    a_slot_has_no_master "cluster-slots";
    a_script_does_not_end "store-busy";
    there_are_too_many_clients "too-many-clients";
    redis_loads_its_data "store-loading";
    redis_becomes_a_replica "store-is-replica";
    the_password_was_changed "store-refuses";
    a_server_is_no_cluster "wrong-kind";
    a_server_is_no_sentinel "wrong-kind";
    a_server_is_in_a_cluster "wrong-kind";
    a_certificate_is_wanted "certificate-wanted";
    nobody_is_there "store-unreachable";
}

/// Sends a command.
fn run(redis: &mut redis::Connection, words: &str) {
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    command.arg(words.collect::<Vec<_>>());
    command.exec(redis).unwrap();
}

/// Sends a command that is not answered for long, and waits until others' commands are refused.
fn run_without_end(redis: &RedisServer, words: &[&str]) -> TcpStream {
    let mut other = redis.connection();
    let mut stream = TcpStream::connect(redis.address()).unwrap();
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    stream.write_all(&command.get_packed_command()).unwrap();
    wait::until_blocking("commands to be refused", LIMIT, || {
        match redis::cmd("PING").query::<String>(&mut other) {
            Err(_) => Ok(()),
            Ok(answer) => Err(answer),
        }
    });
    stream
}

mod outages {
    use super::*;

    pub(super) async fn the_disk_fails(finding: &str) {
        let redis = RedisServer::start();
        let drill = Drill::begin(finding, &redis.url(), &[]).await;
        fs::remove_dir_all(redis.directory()).unwrap();
        let mut connection = redis.connection();
        let mut save = redis::cmd("CONFIG");
        save.arg("SET").arg("save").arg("1 1");
        save.exec(&mut connection).unwrap();
        wait::until_blocking("a snapshot to fail", LIMIT, || {
            // Refused while another one is being written.
            let _ = redis::cmd("BGSAVE").exec(&mut connection);
            let info: String = redis::cmd("INFO").query(&mut connection).unwrap();
            let failed = info.contains("rdb_last_bgsave_status:err");
            if failed { Ok(()) } else { Err(()) }
        });
        drill.check().await;
    }

    pub(super) async fn the_memory_is_full(finding: &str) {
        let redis = RedisServer::start();
        let drill = Drill::begin(finding, &redis.url(), &[]).await;
        run(&mut redis.connection(), "CONFIG SET maxmemory 1");
        drill.check().await;
    }

    pub(super) async fn a_command_is_not_permitted(finding: &str) {
        let redis = RedisServer::start();
        let mut connection = redis.connection();
        run(
            &mut connection,
            "ACL SETUSER leasehold on >secret ~* &* +@all",
        );
        let store = redis.url().replace("redis://", "redis://leasehold:secret@");
        let drill = Drill::begin(finding, &store, &[]).await;
        run(&mut connection, "ACL SETUSER leasehold -set");
        drill.check().await;
    }

    pub(super) async fn a_command_was_renamed(finding: &str) {
        let options = RedisServer::options().arguments(["--rename-command", "EVALSHA", ""]);
        let redis = options.start();
        Drill::start(finding, &redis.url(), &[]).check().await;
    }

    pub(super) async fn redis_wants_replicas(finding: &str) {
        let redis = RedisServer::start();
        let drill = Drill::begin(finding, &redis.url(), &[]).await;
        run(
            &mut redis.connection(),
            "CONFIG SET min-replicas-to-write 1",
        );
        drill.check().await;
    }

    pub(super) async fn replicas_do_not_acknowledge(finding: &str) {
        let mut redis = Replicas::start(1);
        let store = redis.server(0).url();
        let more = ["--min-replicas", "1", "--replica-timeout", "300ms"];
        let drill = Drill::begin(finding, &store, &more).await;
        let drill = drill.for_reason("NOT_REPLICATED");
        redis.server_mut(1).kill();
        drill.check().await;
    }

    pub(super) async fn a_slot_has_no_master(finding: &str) {
        let cluster = Cluster::start();
        let drill = Drill::begin(finding, &cluster.url(), &[]).await;
        // One that is neither of the drill's locks', so that Redis answers and refuses.
        let taken = ["lock:held", "lock:new"].map(|key| cluster.slot_of(key));
        let slot = (0..).find(|slot| !taken.contains(slot)).unwrap();
        for node in cluster.nodes() {
            run(&mut node.connection(), &format!("CLUSTER DELSLOTS {slot}"));
        }
        drill.check().await;
    }

    pub(super) async fn a_script_does_not_end(finding: &str) {
        let redis = RedisServer::options()
            .arguments(["--lua-time-limit", "100"])
            .start();
        let drill = Drill::begin(finding, &redis.url(), &[]).await;
        let _running = run_without_end(&redis, &["EVAL", "while true do end", "0"]);
        drill.check().await;
    }

    pub(super) async fn there_are_too_many_clients(finding: &str) {
        let redis = RedisServer::start();
        let drill = Drill::begin(finding, &redis.url(), &[]).await;
        let mut only = redis.connection();
        run(&mut only, "CONFIG SET maxclients 1");
        run(&mut only, "CLIENT KILL SKIPME yes");
        drill.check().await;
    }

    pub(super) async fn redis_loads_its_data(finding: &str) {
        let redis = RedisServer::options()
            .arguments(["--rdbcompression", "no", "--enable-debug-command", "yes"])
            .arguments(["--loading-process-events-interval-bytes", "1024"])
            .start();
        let drill = Drill::begin(finding, &redis.url(), &[]).await;
        let mut connection = redis.connection();
        // Two minutes, with its clients answered in between.
        let fill = "for i = 1, 12000 do redis.call('SET', 'key' .. i, string.rep('x', 1500)) end";
        redis::cmd("EVAL")
            .arg(fill)
            .arg(0)
            .exec(&mut connection)
            .unwrap();
        run(&mut connection, "CONFIG SET key-load-delay 10000");
        let _loading = run_without_end(&redis, &["DEBUG", "RELOAD"]);
        drill.check().await;
    }

    pub(super) async fn redis_becomes_a_replica(finding: &str) {
        let redis = RedisServer::start();
        let drill = Drill::begin(finding, &redis.url(), &[]).await;
        run(&mut redis.connection(), "REPLICAOF 127.0.0.1 1");
        drill.check().await;
    }

    pub(super) async fn the_password_was_changed(finding: &str) {
        let redis = RedisServer::start();
        let drill = Drill::begin(finding, &redis.url(), &[]).await;
        let mut connection = redis.connection();
        run(&mut connection, "CONFIG SET requirepass changed");
        run(&mut connection, "CLIENT KILL SKIPME yes");
        drill.check().await;
    }

    pub(super) async fn a_server_is_no_cluster(finding: &str) {
        let redis = RedisServer::start();
        let store = redis.url().replace("redis://", "redis+cluster://");
        Drill::start(finding, &store, &[]).check().await;
    }

    pub(super) async fn a_server_is_no_sentinel(finding: &str) {
        let redis = RedisServer::start();
        let store = redis.url().replace("redis://", "redis+sentinel://") + "/master";
        Drill::start(finding, &store, &[]).check().await;
    }

    pub(super) async fn a_server_is_in_a_cluster(finding: &str) {
        let options = RedisServer::options().arguments(["--cluster-enabled", "yes"]);
        let bus = free_port().to_string();
        let redis = options.arguments(["--cluster-port", &bus]).start();
        Drill::start(finding, &redis.url(), &[]).check().await;
    }

    pub(super) async fn a_certificate_is_wanted(finding: &str) {
        let authority = Authority::new("store");
        let certificate = authority.server_for(&["127.0.0.1"]).issue();
        let (port, ca) = (free_port(), authority.ca());
        let [cert, key, ca] =
            [&certificate.cert, &certificate.key, &ca].map(|it| it.to_str().unwrap());
        let _redis = RedisServer::options()
            .arguments(["--tls-port", &port.to_string(), "--tls-auth-clients", "yes"])
            .arguments([
                "--tls-cert-file",
                cert,
                "--tls-key-file",
                key,
                "--tls-ca-cert-file",
                ca,
            ])
            .start();
        let (store, more) = (format!("rediss://127.0.0.1:{port}"), ["--store-ca", ca]);
        let drill = Drill::start(finding, &store, &more).doctor(&more);
        drill.check().await;
    }

    pub(super) async fn nobody_is_there(finding: &str) {
        let mut redis = RedisServer::start();
        let drill = Drill::begin(finding, &redis.url(), &[]).await;
        redis.kill();
        drill.check().await;
    }
}
