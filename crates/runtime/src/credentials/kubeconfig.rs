//! Reading kubeconfigs.

use std::path::Path;

use kube::config::{AuthInfo, Cluster, KubeConfigOptions, Kubeconfig};

use super::{Connection, CredentialsError};
use crate::backoff::hash;

/// The text of a kubeconfig, and whether it is of this machine.
pub(super) struct Text {
    text: String,
    /// The folder its paths begin at; nothing for one that may have no paths.
    folder: Option<std::path::PathBuf>,
}

impl Text {
    pub(super) fn of_file(path: &Path) -> Result<Self, CredentialsError> {
        // A small file that is read in no time: not worth a thread.
        let text = std::fs::read_to_string(path).map_err(|error| CredentialsError::File {
            path: path.to_owned(),
            reason: error.kind().to_string(),
        })?;
        let folder = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok(Self { text, folder: Some(folder) })
    }

    pub(super) fn of_network(text: String) -> Self {
        Self { text, folder: None }
    }

    pub(super) async fn connect(
        self,
        context: Option<&str>,
        place: &str,
    ) -> Result<Connection, CredentialsError> {
        let place_owned = || place.to_owned();
        let mut kubeconfig = Kubeconfig::from_yaml(&self.text)
            .map_err(|_| CredentialsError::Malformed { place: place_owned() })?;
        let mut print = hash(0, self.text.as_bytes());
        let users = kubeconfig.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut());
        let clusters = kubeconfig.clusters.iter_mut().filter_map(|named| named.cluster.as_mut());
        if let Some(folder) = &self.folder {
            for path in users.flat_map(user_paths).chain(clusters.flat_map(cluster_paths)) {
                let absolute = folder.join(&*path);
                // One that is missing is noticed when it is used.
                print = hash(print, &std::fs::read(&absolute).unwrap_or_default());
                *path = absolute.to_string_lossy().into_owned();
            }
        } else {
            let (mut users, mut clusters) = (users, clusters);
            if users.any(|user| reaches(user))
                || clusters.any(|cluster| cluster.certificate_authority.is_some())
            {
                return Err(CredentialsError::Reaches { place: place_owned() });
            }
        }
        let options =
            KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|_| {
            CredentialsError::Context { place: place_owned(), context: context.map(str::to_owned) }
        })?;
        connect(config, print, place)
    }
}

/// The files of a user that are only read when the connection is made. Token files are read again by the client.
fn user_paths(user: &mut AuthInfo) -> impl Iterator<Item = &mut String> {
    [&mut user.client_certificate, &mut user.client_key, &mut user.token_file].into_iter().flatten()
}

fn cluster_paths(cluster: &mut Cluster) -> impl Iterator<Item = &mut String> {
    cluster.certificate_authority.iter_mut()
}

/// Whether a user refers to files or programs of this machine.
fn reaches(user: &AuthInfo) -> bool {
    user.exec.is_some()
        || user.auth_provider.is_some()
        || user.token_file.is_some()
        || user.client_certificate.is_some()
        || user.client_key.is_some()
}

/// Makes a connection.
pub(super) fn connect(
    mut config: kube::Config,
    print: u64,
    place: &str,
) -> Result<Connection, CredentialsError> {
    // What is refused for now, such as an eviction, is to be seen as such.
    config.default_retry = false;
    let mut server = hash(0, config.cluster_url.to_string().as_bytes());
    for certificate in config.root_cert.iter().flatten() {
        server = hash(server, certificate);
    }
    let client =
        kube::Client::try_from(config).map_err(|_| CredentialsError::Unusable { place: place.to_owned() })?;
    Ok(Connection { client, print, server })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n- name: c\n  context: {{cluster: k, user: u}}\n\
             clusters:\n- name: k\n  cluster: {{server: 'http://127.0.0.1:1'}}\nusers:\n- name: u\n  user: {{{user}}}\n"
        )
    }

    async fn network(user: &str) -> Result<Connection, CredentialsError> {
        Text::of_network(kubeconfig(user)).connect(None, "x").await
    }

    #[tokio::test]
    async fn what_came_over_the_network_may_not_reach_into_this_machine() {
        assert!(network("token: t").await.is_ok());
        for user in [
            "tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token",
            "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}",
            "client-certificate: /etc/a, client-key: /etc/b",
        ] {
            let refused = network(user).await.err();
            assert_eq!(refused, Some(CredentialsError::Reaches { place: "x".to_owned() }), "{user}");
        }
    }

    #[tokio::test]
    async fn failures_do_not_quote_credentials() {
        for text in
            ["token: hunter2 {", &kubeconfig("client-certificate-data: hunter2, client-key-data: hunter2")]
        {
            let error = Text::of_network(text.to_owned()).connect(None, "x").await.err().unwrap();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        let missing =
            Text::of_network(kubeconfig("token: t")).connect(Some("other"), "x").await.err().unwrap();
        assert_eq!(missing.to_string(), "x has no usable context `other`");
    }

    #[tokio::test]
    async fn a_certificate_beside_the_file_counts_as_part_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, kubeconfig("tokenFile: token")).unwrap();
        let print = async |token: &str| {
            std::fs::write(folder.path().join("token"), token).unwrap();
            Text::of_file(&path).unwrap().connect(None, "x").await.unwrap().print
        };
        let first = print("a").await;
        assert_eq!(print("a").await, first);
        assert_ne!(print("b").await, first);
    }
}
