//! Rust client and command line: their debug output and their logs.

use std::{fmt::Debug, fs, io, sync::Arc, thread};

use leasehold_client::{Client, ClientBuilder};
use leasehold_tests::in_words;
use tracing_subscriber::filter::LevelFilter;

use super::{
    LIMIT,
    credentials::put,
    guarded::Guarded,
    site::{Told, fresh_token},
};

const ROUNDS: usize = 6;

/// Collector of everything that is logged.
struct Log(Told);

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.text(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Clients that show tokens and certificates, in a thread in which everything is logged.
pub(super) async fn clients(site: &Arc<Guarded>) {
    let (log, inside) = (site.client_logs.clone(), Arc::clone(site));
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || Log(log.clone()))
        .finish();
    let (done, ended) = tokio::sync::oneshot::channel();
    thread::spawn(move || {
        tracing::subscriber::with_default(subscriber, || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(async {
                for at in 0..2 {
                    known(&inside, at).await;
                    refused(&inside, at).await;
                }
            });
        });
        // Before it is told: nobody else has the site from then on.
        drop(inside);
        done.send(()).unwrap();
    });
    // They did what they should.
    ended.await.unwrap();
}

fn show(site: &Guarded, shown: &dyn Debug) {
    let told = &site.client_says;
    told.text(format!("{shown:?} {shown:#?}").as_bytes());
}

fn trusting(site: &Guarded) -> ClientBuilder {
    Client::builder().tls_ca(site.servers.ca())
}

async fn known(site: &Guarded, at: usize) {
    let jwt = site.signer.sign("JWT in use", "worker", 120);
    let from_file = site.file(&format!("client-token-{at}"));
    put(&from_file, &site.worker.token);
    for builder in [
        trusting(site).bearer_token(&site.worker.token),
        trusting(site).bearer_token(jwt),
        trusting(site).bearer_token_file(&from_file),
        trusting(site).tls_identity(&site.client.cert, &site.client.key),
    ] {
        show(site, &builder);
        let client = builder.clone().connect(site.endpoint(at)).await.unwrap();
        show(site, &client);
        show(site, &client.channel());
        show(site, &client.session());
        for round in 0..ROUNDS {
            let guard = client.lock(format!("library/{at}/{round}")).into_future();
            let guard = guard.await.unwrap();
            show(site, &guard);
            show(site, &client.admin().list_sessions().await.unwrap());
            guard.release().await.unwrap();
            let error = client.lock("").await.unwrap_err();
            show(site, &error);
            site.client_says.text(error.to_string().as_bytes());
        }
        client.close().await;
        show(site, &builder.admin(site.endpoint(at)).unwrap());
    }
    // The file gets another token while a client goes by it.
    let client = trusting(site).bearer_token_file(&from_file);
    let client = client.connect(site.endpoint(at)).await.unwrap();
    put(&from_file, &site.signer.sign("JWT in use", "worker", 120));
    client.admin().list_sessions().await.unwrap();
    put(&from_file, &fs::read_to_string(&site.server.key).unwrap());
    client.admin().list_sessions().await.unwrap();
    show(site, &client);
}

async fn refused(site: &Guarded, at: usize) {
    let strange = &site.strange;
    let both = format!("{} {}", site.worker.token, site.reader.token);
    let endpoint = site.endpoint(at);
    for (builder, endpoint) in [
        (
            trusting(site).bearer_token(fresh_token(&site.secrets)),
            &endpoint,
        ),
        (trusting(site).bearer_token(site.signer.forge()), &endpoint),
        (trusting(site).bearer_token(both), &endpoint),
        // Nobody who is known answers there.
        (
            Client::builder()
                .tls_ca(&strange.cert)
                .bearer_token(&site.worker.token),
            &endpoint,
        ),
        (
            trusting(site).bearer_token(&site.worker.token),
            // Nobody is asked there, for want of TLS.
            &"http://192.0.2.1:1".to_owned(),
        ),
        // A certificate that nobody asked for, and files that are mixed up.
        (
            trusting(site).tls_identity(&strange.cert, &strange.key),
            &endpoint,
        ),
        (
            trusting(site).tls_identity(&site.client.cert, &strange.key),
            &endpoint,
        ),
        (
            trusting(site).tls_identity(&site.client.key, &site.client.cert),
            &endpoint,
        ),
        (
            trusting(site).bearer_token_file(&site.client.key),
            &endpoint,
        ),
        (Client::builder().tls_ca(&site.client.key), &endpoint),
    ] {
        let connected = tokio::time::timeout(LIMIT, builder.connect(endpoint.as_str()));
        let error = connected.await.unwrap().unwrap_err();
        show(site, &error);
        site.client_says.text(in_words(&error).as_bytes());
    }
}

/// Runs the command line with right and with wrong credentials.
pub(super) async fn command_line(site: &Guarded, at: usize) {
    let (endpoint, ca) = (site.endpoint(at), site.servers.ca().display().to_string());
    let [cert, key, strange] = [&site.client.cert, &site.client.key, &site.strange.key]
        .map(|path| path.display().to_string());
    let jwt = site.signer.sign("JWT in use", "worker", 120);
    let file = site.file(&format!("cli-token-{at}"));
    put(&file, &site.worker.token);
    let file = file.display().to_string();
    let unknown = fresh_token(&site.secrets);
    let whole = ["--endpoint", &endpoint, "--ca", &ca];
    let run = async |command: &[&str], more: &[&str], token: Option<&str>| {
        let arguments = [command, &whole, more].concat();
        site.run("leasehold", &arguments, token).await
    };
    let lock = format!("cli/{at}");
    for command in [["status"].as_slice(), &["get", &lock], &["ls"]] {
        assert!(run(command, &[], Some(&site.worker.token)).await);
        assert!(run(command, &[], Some(&jwt)).await);
        assert!(run(command, &["--token-file", &file], None).await);
        assert!(run(command, &["--cert", &cert, "--key", &key], None).await);
        if command != ["status"] {
            assert!(!run(command, &[], Some(&unknown)).await);
            assert!(!run(command, &["--token-file", &key], None).await);
        }
        assert!(!run(command, &["--cert", &cert, "--key", &strange], None).await);
        assert!(!run(command, &["--cert", &key, "--key", &key], None).await);
    }
    assert!(run(&["--help"], &["--token-file", &file], Some(&jwt)).await);
}
