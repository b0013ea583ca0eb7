//! The store's URL from a file of its own.

use super::*;

#[test]
fn the_url_is_read_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fs::write(&path, "redis://app:hunter2@h/1\n").unwrap();
    let flag = format!("--store-file={}", path.display());
    let config = served(&[&flag], &[]);
    assert_eq!(config.store.expose(), "redis://app:hunter2@h/1");
    assert!(!format!("{config:?}").contains("hunter2"));

    let text = printed(&[&flag, "--print-config"], &[]);
    let line = format!(
        "# store = \"redis://app:***@h/1\" # contents of {}",
        path.display()
    );
    assert!(text.lines().any(|found| found == line), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    // What is printed is a file that says the same.
    let printed = folder.path().join("printed.toml");
    fs::write(&printed, text).unwrap();
    let again = served(&["--config", printed.to_str().unwrap()], &[]);
    assert_eq!(again, config);
}

#[test]
fn errors_do_not_show_the_url() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let flag = format!("--store-file={}", path.display());
    for (contents, says) in [
        ("", "on one line"),
        ("redis://:hunter2@h\nredis://:hunter2@i\n", "on one line"),
        ("hunter2", "(contents of "),
        ("redis+sentinel://:hunter2@h", "which master"),
    ] {
        fs::write(&path, contents).unwrap();
        let error = refused(&[&flag], &[]);
        assert!(error.contains(says), "no {says:?} in {error:?}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    fs::write(&path, "redis://h\n").unwrap();
    let error = refused(&[&flag, "--store=memory:"], &[]);
    let both = "store (flag --store) and store-file (flag --store-file) are both set";
    assert!(error.contains(both), "{error}");
    fs::remove_file(&path).unwrap();
    let error = refused(&[&flag], &[]);
    let unread = "store-file (flag --store-file): failed to read";
    assert!(error.contains(unread), "{error}");
    assert!(refused(&["--store-file="], &[]).contains("path of a file"));
}

#[test]
fn the_stronger_layer_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fs::write(&path, "redis://of-the-file\n").unwrap();
    let path = path.to_str().unwrap();
    let (url, file) = ("redis://itself", path);
    let toml = |text: String| {
        let path = folder.path().join("leasehold.toml");
        fs::write(&path, text).unwrap();
        format!("--config={}", path.display())
    };
    let flags = [format!("--store={url}"), format!("--store-file={file}")];
    let variables = [("LEASEHOLD_STORE", url), ("LEASEHOLD_STORE_FILE", file)];
    let lines = [format!("store = {url:?}"), format!("store-file = {file:?}")];
    for stronger in 0..2 {
        let weaker = 1 - stronger;
        let config = toml(lines[weaker].clone());
        for (args, env) in [
            (vec![&flags[stronger], &config], vec![]),
            (vec![&config], vec![variables[stronger]]),
            (vec![&flags[stronger]], vec![variables[weaker]]),
            (vec![&flags[stronger], &config], vec![variables[weaker]]),
        ] {
            let args: Vec<&str> = args.into_iter().map(String::as_str).collect();
            let served = served(&args, &env);
            let (expected, named) = [(url, None), ("redis://of-the-file", Some(file))][stronger];
            assert_eq!(served.store.expose(), expected, "{args:?} {env:?}");
            let store_file = served.store_file.as_deref();
            assert_eq!(store_file, named.map(std::path::Path::new), "{args:?}");
            // What is printed says the same.
            let text = printed(&[&args[..], &["--print-config"]].concat(), &env);
            assert!(text.contains(expected), "{text}");
            assert_eq!(
                text.contains(&format!("{file}\" #")),
                stronger == 1,
                "{text}"
            );
        }
    }
    // Within one layer, nobody knows which is meant.
    let both = toml(lines.join("\n"));
    for (args, env) in [
        (vec![flags[0].as_str(), &flags[1]], vec![]),
        (vec![], variables.to_vec()),
        (vec![both.as_str()], vec![]),
    ] {
        let error = refused(&args, &env);
        assert!(error.contains("are both set"), "{error}");
    }
    // A weaker one that can't be read does no harm.
    let config = toml("store-file = \"/no/such/file\"".to_owned());
    let config = served(&[&config], &[("LEASEHOLD_STORE", url)]);
    assert_eq!(config.store.expose(), url);
}
