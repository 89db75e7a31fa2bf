//! Tokens with which new nodes join.

use jiff::Timestamp;

use crate::attributes::User;
use crate::auth::secret::same;
use crate::auth::tokens::secret_data;
use crate::names::GroupResource;
use crate::reader::Reader;

const GROUP: &str = "system:bootstrappers";

/// The user of a bootstrap token, if its secret says that it is one.
pub(super) fn user(token: &str, reader: &dyn Reader, now: Timestamp) -> Option<User> {
    let (id, own) = token.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if id.len() != 6 || own.len() != 16 || !plain(id) || !plain(own) {
        return None;
    }
    let name = format!("bootstrap-token-{id}");
    let secret = reader.get(&GroupResource::new("", "secrets"), "kube-system", &name)?;
    if !secret["metadata"]["deletionTimestamp"].is_null() || secret["type"] != "bootstrap.kubernetes.io/token"
    {
        return None;
    }
    let data = |key: &str| secret_data(&secret, key).unwrap_or_default();
    let text = |key: &str| String::from_utf8(data(key)).unwrap_or_default();
    if !same(&data("token-secret"), own.as_bytes())
        || text("token-id") != id
        || text("usage-bootstrap-authentication") != "true"
    {
        return None;
    }
    let expiration = text("expiration");
    // An end that cannot be read has passed.
    if !expiration.is_empty() && expiration.parse::<Timestamp>().map_or(true, |end| end <= now) {
        return None;
    }
    let mut groups = vec![GROUP.to_owned()];
    let extra = text("auth-extra-groups");
    if !extra.is_empty() {
        for group in extra.split(',') {
            if !is_bootstrap_group(group) {
                return None;
            }
            groups.push(group.to_owned());
        }
    }
    groups.sort();
    groups.dedup();
    Some(User { name: format!("system:bootstrap:{id}"), groups, ..User::default() })
}

fn is_bootstrap_group(group: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    group.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix(':')).is_some_and(|rest| {
        (1..=256).contains(&rest.len())
            && rest.bytes().all(|byte| letter(byte) || byte == b':' || byte == b'-')
            && rest.bytes().last().is_some_and(letter)
    })
}
