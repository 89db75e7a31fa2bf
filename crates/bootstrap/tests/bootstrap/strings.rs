//! Whatever people write is data: it comes out of every format as it went in.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::Value;
use trellis_bootstrap::render;
use trellis_model::access::SshKey;
use trellis_model::image::OperatingSystem;

use crate::site::{Known, Mode, site};

/// Texts that mean something to shells, YAML, JSON, TOML, units or systemd.
fn nasty() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{1,24}",
        "[ -~\n\t]{1,24}",
        Just("$(touch /tmp/x)`id`${HOME}".to_owned()),
        Just("a'b\"c\\d\ne: f # g".to_owned()),
        Just("%h%%n $$ {{ x }} !!python/object".to_owned()),
        Just("---\n- yes\n...\n".to_owned()),
        Just("ünï©ødé \u{85}\u{2028}".to_owned()),
    ]
}

fn image(text: &str) -> String {
    let manifest: Value = serde_saphyr::from_str(text).unwrap();
    manifest["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn nothing_people_write_is_changed_or_run(images in nasty(), kubernetes in nasty(), exporter in nasty(), comment in "[!-~]{1,20}") {
        for os in [OperatingSystem::RockyLinux, OperatingSystem::FedoraCoreos] {
            let mut site = site(os, Mode::Pod);
            site.sources.images = images.clone();
            site.sources.kubernetes = kubernetes.clone();
            site.sources.node_exporter = exporter.clone();
            let key = SshKey::new(&format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA {comment}")).unwrap();
            site.cluster.spec.ssh_keys = [key.clone()].into();
            let known = Known::new(site);
            let master = known.master("m0");
            let manifest = |name: &str| master.content(&format!("/etc/kubernetes/manifests/{name}.yaml")).unwrap();
            prop_assert_eq!(image(manifest("kube-apiserver")), format!("{images}/kube-apiserver:v1.37.1"));
            prop_assert_eq!(image(manifest("node-exporter")), exporter.as_str());
            let kubeadm = master.content("/etc/kubernetes/kubeadm.yaml").unwrap();
            let first: Value = serde_saphyr::from_multiple::<Value>(kubeadm).unwrap().remove(0);
            prop_assert_eq!(first["imageRepository"].as_str(), Some(images.as_str()));
            // The install program asks for exactly that address.
            let install = master.content("/etc/trellis/install").unwrap();
            let script = format!(
                "retry() {{ shift 3; printf '%s\\0' \"$1\"; }}\n{}",
                install.lines().skip_while(|line| !line.starts_with("retry fetch")).take_while(|line| !line.starts_with("restorecon")).collect::<Vec<_>>().join("\n")
            );
            let said = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
            let asked = String::from_utf8(said.stdout).unwrap();
            let expected = format!("{}/v1.37.1/bin/linux/amd64/kubelet", kubernetes.trim_end_matches('/'));
            prop_assert_eq!(asked.split('\0').next(), Some(expected.as_str()), "{}", script);
            // Both families keep the key and the files.
            let text = render::user_data(os, &master);
            let keys = if os == OperatingSystem::FedoraCoreos {
                let document: Value = serde_json::from_str(text.expose()).unwrap();
                let source = document["storage"]["files"][1]["contents"]["source"].as_str().unwrap().to_owned();
                let bytes = STANDARD.decode(source.strip_prefix("data:;base64,").unwrap()).unwrap();
                prop_assert_eq!(bytes, master.files[0].content.expose().as_bytes());
                document["passwd"]["users"][0]["sshAuthorizedKeys"].clone()
            } else {
                let document: Value = serde_saphyr::from_str(text.expose()).unwrap();
                document["ssh_authorized_keys"].clone()
            };
            prop_assert_eq!(keys, serde_json::json!([key.as_str()]));
        }
    }
}
