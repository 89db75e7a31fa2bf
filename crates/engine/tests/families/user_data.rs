//! What guests read at first boot.

use serde_json::{Value, json};
use trellis_engine::families::user_data::{NoUserData, SecretSeen, Source, source, user_data};
use trellis_engine::families::{Family, KKP, OPENSHIFT, TRELLIS, make};

use super::fixtures::{
    kkp_machine, kkp_set, object, openshift_machine, own_readings, pool, readings, served,
};

fn secret(key: &str, text: &str) -> SecretSeen {
    SecretSeen { data: [(key.to_owned(), text.as_bytes().to_vec())].into(), ..SecretSeen::default() }
}

fn given(family: &Family, source: &Source, secret: &SecretSeen) -> String {
    user_data(family, "m-1", source, Some(secret)).unwrap().unwrap().to_string()
}

#[test]
fn kkp_waits_for_the_secret_of_its_revision() {
    let machine = object(kkp_machine("m-1"));
    let reading = readings(&KKP).machine(&machine, Some("workers")).unwrap();
    let set = object(kkp_set());
    let source = source(&KKP, &machine, Some(&set), Some("workers"), &reading);
    let expected = Source::Secret {
        namespace: "cloud-init-settings".to_owned(),
        name: "workers-kube-system-bootstrap-config".to_owned(),
        revision: Some("3".to_owned()),
    };
    assert_eq!(source, expected);
    assert!(matches!(user_data(&KKP, "m-1", &source, None), Err(NoUserData::Missing(_))));
    let mut secret = secret("cloud-config", "#cloud-config\nhostname: <MACHINE_NAME>\n");
    secret.annotations.insert("k8c.io/machine-deployment-revision".to_owned(), "2".to_owned());
    let error = user_data(&KKP, "m-1", &source, Some(&secret)).unwrap_err();
    assert!(matches!(&error, NoUserData::OtherRevision { found, .. } if found == "2"), "{error}");
    secret.annotations.insert("k8c.io/machine-deployment-revision".to_owned(), "3".to_owned());
    assert_eq!(given(&KKP, &source, &secret), "#cloud-config\nhostname: m-1\n");
}

#[test]
fn a_kkp_machine_of_no_deployment_has_none_to_wait_for() {
    let machine = object(kkp_machine("m-1"));
    let reading = readings(&KKP).machine(&machine, None).unwrap();
    let source = source(&KKP, &machine, None, None, &reading);
    assert_eq!(user_data(&KKP, "m-1", &source, None), Ok(None));
}

#[test]
fn openshift_adds_the_name_to_the_ignition_there_is() {
    let machine = object(openshift_machine("m-1"));
    let reading = readings(&OPENSHIFT).machine(&machine, Some("demo-worker-0")).unwrap();
    let source = source(&OPENSHIFT, &machine, None, None, &reading);
    let named = |name: &str| Source::Secret {
        namespace: "openshift-machine-api".to_owned(),
        name: name.to_owned(),
        revision: None,
    };
    assert_eq!(source, named("worker-user-data"));
    for (storage, files) in [
        (json!(null), 1),
        (json!({}), 1),
        (json!({ "files": [{ "path": "/etc/motd" }] }), 2),
        (json!({ "files": [{ "path": "/etc/hostname" }, { "path": "/etc/motd" }] }), 2),
    ] {
        let config = json!({ "ignition": { "version": "3.2.0" }, "storage": storage });
        let text = given(&OPENSHIFT, &source, &secret("userData", &config.to_string()));
        let config: Value = serde_json::from_str(&text).unwrap();
        let list = config["storage"]["files"].as_array().unwrap();
        assert_eq!(list.len(), files, "{text}");
        let hostname = list.iter().find(|file| file["path"] == "/etc/hostname").unwrap();
        assert_eq!(
            (&hostname["contents"]["source"], &hostname["overwrite"]),
            (&json!("data:,m-1"), &json!(true))
        );
    }
    let bad = [
        ("userData", "hunter2 is no JSON"),
        ("userData", "{\"hunter2\": {}}"),
        ("userData", ""),
        ("other", "{\"ignition\": {\"version\": \"3.2.0\"}}"),
    ];
    for (key, text) in bad {
        let error = user_data(&OPENSHIFT, "m-1", &source, Some(&secret(key, text))).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
    let bytes =
        SecretSeen { data: [("userData".to_owned(), vec![0xff, 0xfe])].into(), ..SecretSeen::default() };
    assert!(matches!(user_data(&OPENSHIFT, "m-1", &source, Some(&bytes)), Err(NoUserData::NotText(_))));
    assert!(!format!("{bytes:?}").contains("255"));
}

#[test]
fn ours_is_passed_on_as_it_is() {
    let owner = served(pool(), "uid");
    let reading = own_readings().pool(&owner).unwrap();
    let machine = make::machine(&TRELLIS, &owner, &reading, make::NewMachine { ordinal: 0, zone: None });
    let source = source(&TRELLIS, &served(machine, "uid-m"), None, None, &reading);
    assert_eq!(given(&TRELLIS, &source, &secret("userData", "#cloud-config\n")), "#cloud-config\n");
}
