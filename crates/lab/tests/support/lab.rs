//! The lab as a server under test.

use std::path::Path;
use std::time::Duration;

use trellis_lab::store::Retention;
use trellis_lab::{Lab, Options, Secret, User};

use super::Result;
use super::certificates::Identity;
use super::client::Credentials;
use super::target::{ALICE_TOKEN, Target};

/// Starts the lab in this process, served over TLS on loopback, with its objects below `directory`.
pub(crate) async fn start(directory: &Path) -> Result<Target> {
    let user = |name: &str, group: &str| User {
        name: name.to_owned(),
        uid: format!("{name}-uid"),
        groups: vec![group.to_owned()],
        ..User::default()
    };
    let options = Options {
        folder: Some(directory.join("lab")),
        tokens: vec![(Secret::new(ALICE_TOKEN), user("alice", "devs"))],
        // Short, so that scenarios can see its end.
        history: Retention { age: Duration::from_secs(20), least: 50, most: 100_000, ..Retention::default() },
        ..Options::default()
    };
    let mut lab = Lab::start(options).await?;
    let listening = lab.listen(0).await?;
    let admin = lab.client_certificate("admin", &["system:masters"])?;
    let kubeconfig = directory.join("kubeconfig");
    std::fs::write(&kubeconfig, listening.kubeconfig.expose())?;
    Ok(Target {
        name: "lab",
        base: format!("https://{}", listening.address),
        authority: lab.authority_pem(),
        admin: Credentials::Certificate(Identity {
            certificate: admin.certificate,
            key: admin.key.expose().to_owned(),
        }),
        alice: Credentials::Token(ALICE_TOKEN.to_owned()),
        kubeconfig,
        _running: Box::new(lab),
    })
}
