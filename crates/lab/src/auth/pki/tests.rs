use std::fs;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::pki_types::{ServerName, UnixTime};

use super::*;

fn now() -> Timestamp {
    "2026-11-16T05:49:04Z".parse().unwrap()
}

#[test]
fn the_serving_certificate_is_accepted_under_all_names_of_the_server() {
    let extra = [AltName::Dns("lab.example".to_owned()), AltName::Ip([192, 0, 2, 7].into())];
    let pki = Pki::generate(now(), &extra).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(pki.cluster.certificate().clone()).unwrap();
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
    let serving = pki.serving.certificate_der().unwrap();
    let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now().as_second().unsigned_abs()));
    for name in
        ["127.0.0.1", "::1", "localhost", "10.96.0.1", "kubernetes.default.svc", "lab.example", "192.0.2.7"]
    {
        let name = ServerName::try_from(name).unwrap();
        verifier.verify_server_cert(&serving, &[], &name, &[], time).unwrap();
    }
    let other = ServerName::try_from("example.com").unwrap();
    assert!(verifier.verify_server_cert(&serving, &[], &other, &[], time).is_err());
}

#[test]
fn a_client_certificate_names_the_user_and_all_groups() {
    let pki = Pki::generate(now(), &[]).unwrap();
    let client = pki.cluster.client("carol", &["ops", "devs"], now()).unwrap();
    let facts = read(&client.certificate_der().unwrap()).unwrap();
    assert_eq!(facts.subject.common_name(), "carol");
    let mut groups = facts.subject.organizations();
    groups.sort();
    assert_eq!(groups, ["devs", "ops"]);
    assert!(facts.not_before < now() && now() < facts.not_after);
    assert!(!facts.authority);
}

#[test]
fn a_folder_keeps_the_authorities_and_survives_a_death_between_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("pki");
    let first = Pki::load_or_generate(&folder, now(), &[]).unwrap();
    let second = Pki::load_or_generate(&folder, now(), &[]).unwrap();
    assert_eq!(first.cluster.certificate(), second.cluster.certificate());
    assert_eq!(first.service_accounts, second.service_accounts);
    assert_ne!(first.serving.certificate, second.serving.certificate);
    #[cfg(unix)]
    for file in fs::read_dir(&folder).unwrap() {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    fs::remove_file(folder.join("ca.crt")).unwrap();
    let third = Pki::load_or_generate(&folder, now(), &[]).unwrap();
    assert_eq!(third.cluster.key.serialize_der(), first.cluster.key.serialize_der());
}

#[test]
fn broken_folders_are_told_and_keys_are_not() {
    let problem = |break_it: &dyn Fn(&std::path::Path)| {
        let folder = tempfile::tempdir().unwrap();
        Pki::load_or_generate(folder.path(), now(), &[]).unwrap();
        break_it(folder.path());
        Pki::load_or_generate(folder.path(), now(), &[]).unwrap_err().to_string()
    };
    let cut = problem(&|folder| {
        let text = fs::read_to_string(folder.join("ca.key")).unwrap();
        fs::write(folder.join("ca.key"), &text[..60]).unwrap();
    });
    assert!(cut.contains("ca.key: this is not a private key"), "{cut}");
    let secret = problem(&|folder| fs::write(folder.join("sa.key"), "hunter2").unwrap());
    assert!(secret.contains("sa.key: this is not a private key") && !secret.contains("hunter2"), "{secret}");
    let missing = problem(&|folder| fs::remove_file(folder.join("front-proxy-ca.key")).unwrap());
    assert!(missing.contains("is missing, but its certificate is there"), "{missing}");
    let mixed = problem(&|folder| {
        fs::copy(folder.join("front-proxy-ca.key"), folder.join("ca.key")).unwrap();
    });
    assert!(mixed.contains("not the one of the key"), "{mixed}");
    let binary = problem(&|folder| fs::write(folder.join("ca.crt"), [0xff; 9]).unwrap());
    assert!(binary.contains("ca.crt: this is not text"), "{binary}");
}

#[test]
fn an_authority_that_has_expired_is_told() {
    let folder = tempfile::tempdir().unwrap();
    Pki::load_or_generate(folder.path(), now(), &[]).unwrap();
    let later = after(now(), TEN_YEARS + SignedDuration::from_hours(1));
    let problem = Pki::load_or_generate(folder.path(), later, &[]).unwrap_err();
    assert!(matches!(problem, PkiError::OutOfTime { .. }), "{problem}");
}

#[test]
fn everything_is_made_in_a_moment_and_shows_no_key() {
    let start = std::time::Instant::now();
    let pki = Pki::generate(now(), &[]).unwrap();
    assert!(start.elapsed() < std::time::Duration::from_millis(50), "{:?}", start.elapsed());
    assert!(!format!("{pki:?}").contains("PRIVATE"), "{pki:?}");
}
