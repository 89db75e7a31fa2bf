//! Files that tell clients where a server is and who they are.

use base64::Engine as _;

use super::pki::Credential;
use super::secret::Secret;

/// How a client says who it is.
#[derive(Debug, Clone)]
pub enum Identity {
    /// With a certificate.
    Certificate(Credential),
    /// With a bearer token.
    Token(Secret),
}

/// A kubeconfig with one context, everything embedded.
///
/// `server` is the URL, `authority` the PEM of the certificate that the server's is signed by.
pub fn kubeconfig(name: &str, server: &str, authority: &str, identity: &Identity) -> Secret {
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    // A JSON string is a YAML string, whatever is in it.
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let user = match identity {
        Identity::Certificate(credential) => format!(
            "    client-certificate-data: {}\n    client-key-data: {}\n",
            encode(&credential.certificate),
            encode(credential.key.expose())
        ),
        Identity::Token(token) => format!("    token: {}\n", quoted(token.expose())),
    };
    let user_name = quoted(&format!("{name}-admin"));
    let (name, server, authority) = (quoted(name), quoted(server), encode(authority));
    Secret::new(format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    server: {server}\n    \
         certificate-authority-data: {authority}\nusers:\n- name: {user_name}\n  user:\n{user}contexts:\n\
         - name: {name}\n  context:\n    cluster: {name}\n    user: {user_name}\ncurrent-context: {name}\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_is_yaml_with_everything_in_it() {
        let identity = Identity::Token(Secret::new("t\"1"));
        let text = kubeconfig("lab", "https://127.0.0.1:6443", "CA", &identity);
        let read: serde_json::Value = serde_saphyr::from_str(text.expose()).unwrap();
        assert_eq!(read["clusters"][0]["cluster"]["certificate-authority-data"], "Q0E=");
        assert_eq!(read["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
        assert_eq!(read["users"][0]["user"]["token"], "t\"1");
        assert_eq!(read["contexts"][0]["context"]["user"], read["users"][0]["name"]);
        assert_eq!(read["current-context"], read["contexts"][0]["name"]);
    }
}
