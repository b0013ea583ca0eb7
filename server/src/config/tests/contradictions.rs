//! Settings that are right one by one and wrong together.

use super::*;

#[test]
fn contradictions_are_refused() {
    for (args, says) in [
        (
            "--min-ttl=11s",
            "min-ttl is 11s (flag --min-ttl) and default-ttl is 10s (default)",
        ),
        (
            "--max-ttl=9s",
            "default-ttl is 10s (default) and max-ttl is 9s (flag --max-ttl)",
        ),
        ("--listen=0.0.0.0:7420", "--insecure"),
        ("--admin-listen=[::]:7421", "admin-listen is [::]:7421"),
        ("--listen=[::ffff:192.0.2.1]:7420", "--insecure"),
        (
            "--listen=0.0.0.0:7420",
            "nothing would be encrypted; set tls-cert and tls-key,",
        ),
        (
            "--listen=0.0.0.0:7420 --admin-listen=0.0.0.0:7421 --tls-cert=/s.pem --tls-key=/s.key",
            "admin-listen is 0.0.0.0:7421",
        ),
        (
            "--tls-cert=/s.pem",
            "tls-cert is /s.pem (flag --tls-cert) and tls-key is not set",
        ),
        ("--tls-key=/s.key", "tls-cert is not set"),
        ("--admin-tls", "tls-cert is not set"),
        ("--tls-client-ca=/c.pem", "tls-cert is not set"),
        ("--tls-client-auth=optional", "tls-client-ca is not set"),
        ("--tls-client-crl=/r.pem", "tls-client-ca is not set"),
        (
            "--tls-cert=/s.pem --tls-key=/s.key --tls-client-ca=/c.pem --tls-client-auth=none",
            "expected optional or required",
        ),
        ("--listen=127.0.0.1:7421", "two addresses"),
        ("--store-ca=/ca.pem", "store-ca"),
        (
            "--store=rediss://h --store-cert=/c.pem",
            "store-key is not set",
        ),
        (
            "--store-cert=/c.pem --store-key=/c.key",
            "store-cert is /c.pem",
        ),
        (
            "--store-ca=/ca.pem --store=redis://:hunter2@h",
            "redis://:***@h",
        ),
        (
            "--store-ca=/ca.pem --store=redis+sentinel://h,i/m?sentinel-password=hunter2",
            "redis+sentinel://h,i/m?sentinel-password=***",
        ),
        ("--min-replicas=1", "no replicas that could acknowledge"),
        ("--store=redis+quorum://:hunter2@a,b", "names 2 masters"),
        // What the scheme and a host alone do not tell.
        ("--store=redis+sentinel://:hunter2@h", "which master"),
        ("--store=redis+sentinel://h:hunter2/m", "the port of host 1"),
        (
            "--store=rediss+sentinel://h/m?password=hunter2",
            "sentinel-password",
        ),
        ("--store=redis://h?sentinel-password=hunter2", "a query"),
    ] {
        let error = refused(&words(args), &[]);
        assert!(error.contains(says), "{args}: no {says:?} in {error:?}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    for args in [
        "--listen=0.0.0.0:7420 --admin-listen=0.0.0.0:7421 --insecure",
        "--listen=[::ffff:127.0.0.1]:7420",
        "--tls-cert=/s.pem --tls-key=/s.key --listen=0.0.0.0:7420",
        "--tls-cert=/s.pem --tls-key=/s.key --listen=0.0.0.0:7420 --admin-listen=0.0.0.0:7421 --admin-tls",
        "--tls-client-auth=none",
        "--listen=127.0.0.1:0 --admin-listen=127.0.0.1:0",
        "--store-ca=/ca.pem --store=rediss://h",
        "--store-ca=/ca.pem --store=rediss+sentinel://h,i/m/2",
    ] {
        served(&words(args), &[]);
    }
    let asking = words("--tls-cert=/s.pem --tls-key=/s.key --tls-client-ca=/c.pem");
    assert_eq!(served(&asking, &[]).client_auth(), ClientAuth::Required);
}
