//! Tokens by which machines prove who they are when they ask for their configuration.
//!
//! A token says which machine it is for, when it was made and when it ends, and is signed with a key that only those who
//! make tokens and those who serve configurations have. So nobody has to be told of a new one: whoever serves can check
//! it. It is good for one machine, once, and for a quarter of an hour at most.
//!
//! What is kept is who had a configuration, and for a token of when ([`Redeemed`]). A token counts only if it was made
//! after the last one that was used for its machine, and after the ledger was opened: a server that takes over from
//! another one opens a ledger of its own, and accepts nothing the one before may have accepted.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use rand::CryptoRng;
use serde::{Deserialize, Serialize};
use trellis_model::names::{MachineName, PoolName};

use crate::secret::Secret;

/// The longest a token is good for.
pub const LONGEST: SignedDuration = SignedDuration::from_mins(15);
/// How long it is remembered that a machine had its configuration: long enough for whoever wants to know.
const REMEMBERED: SignedDuration = SignedDuration::from_hours(24);
/// The longest text that is looked at as a token.
const LONGEST_TEXT: usize = 2048;

/// A token in the clear: it is given to its machine, and kept nowhere else.
#[derive(Clone)]
pub struct Token(String);

impl Token {
    /// The token itself, for the machine's own user data.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(..)")
    }
}

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Statement {
    /// Who may show it.
    pub bearer: Bearer,
    /// When it was made.
    pub issued: Timestamp,
    /// Until when it is good.
    pub expires: Timestamp,
    /// Chance, so that two of one moment differ.
    nonce: String,
}

/// Who may show a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Bearer {
    /// A machine, for its configuration, once.
    Machine {
        /// Its name.
        name: MachineName,
        /// The pool it is of.
        pool: PoolName,
    },
    /// Whoever looks after the cluster, to learn who was served. It may be shown again.
    Keeper,
}

/// The key that signs tokens.
#[derive(Clone)]
pub struct TokenKey(hmac::Key);

impl fmt::Debug for TokenKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TokenKey(..)")
    }
}

impl TokenKey {
    /// The key that follows from another secret of the cluster.
    pub(crate) fn of(secret: &Secret) -> Self {
        let root = hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes());
        let own = hmac::sign(&root, b"trellis.dev tokens of machines v1");
        Self(hmac::Key::new(hmac::HMAC_SHA256, own.as_ref()))
    }

    /// Makes a token.
    pub fn issue(
        &self,
        bearer: Bearer,
        lifetime: SignedDuration,
        rng: &mut dyn CryptoRng,
        now: Timestamp,
    ) -> Token {
        let mut nonce = [0; 16];
        rng.fill_bytes(&mut nonce);
        let statement = Statement {
            bearer,
            issued: now,
            expires: now.checked_add(lifetime.min(LONGEST)).unwrap_or(now),
            nonce: URL_SAFE_NO_PAD.encode(nonce),
        };
        let text = URL_SAFE_NO_PAD.encode(serde_json::json!(statement).to_string());
        let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, text.as_bytes()));
        Token(format!("{text}.{tag}"))
    }

    /// What a token says, if it was made with this key and has not ended.
    pub fn check(&self, token: &str, now: Timestamp) -> Result<Statement, Refusal> {
        let parts =
            Some(token).filter(|token| token.len() <= LONGEST_TEXT).and_then(|one| one.split_once('.'));
        let (text, tag) = parts.ok_or(Refusal::NotOurs)?;
        let tag = URL_SAFE_NO_PAD.decode(tag).map_err(|_| Refusal::NotOurs)?;
        hmac::verify(&self.0, text.as_bytes(), &tag).map_err(|_| Refusal::NotOurs)?;
        let text = URL_SAFE_NO_PAD.decode(text).map_err(|_| Refusal::NotOurs)?;
        let statement: Statement = serde_json::from_slice(&text).map_err(|_| Refusal::NotOurs)?;
        if now < statement.expires { Ok(statement) } else { Err(Refusal::Expired) }
    }
}

/// Why a token was not accepted. Who showed it is told none of this; it is for the log, and for whoever looks after the
/// cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is none, or signed by somebody else.
    #[error("its token is not one of this cluster's")]
    NotOurs,
    /// It is too old.
    #[error("its token has expired")]
    Expired,
    /// It is another machine's, or for another role.
    #[error("its token is for another machine or role")]
    Another,
    /// It was used, or one that is newer.
    #[error("its token was used before")]
    Used,
    /// It was made before this ledger was opened.
    #[error("its token is older than the server")]
    TooOld,
    /// The ledger cannot be read or written, so that nobody can be let in.
    #[error("the ledger of tokens is out of order: {0}")]
    OutOfOrder(String),
}

/// Who had a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Redeemed {
    /// Tokens that were made before count nothing here.
    pub opened: Timestamp,
    /// The machines that had theirs.
    #[serde(default)]
    pub machines: BTreeMap<MachineName, Redemption>,
}

/// How a machine had its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Redemption {
    /// When the token was made that it showed.
    pub issued: Timestamp,
    /// When it showed it.
    pub used: Timestamp,
}

impl Redeemed {
    /// A ledger in which nobody stands.
    pub fn opened(at: Timestamp) -> Self {
        Self { opened: at, machines: BTreeMap::new() }
    }

    /// Uses up the token of a machine.
    pub fn redeem(
        &mut self,
        machine: &MachineName,
        issued: Timestamp,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if issued < self.opened {
            return Err(Refusal::TooOld);
        }
        if self.machines.get(machine).is_some_and(|last| issued <= last.issued) {
            return Err(Refusal::Used);
        }
        // Tokens as old as those that are forgotten have long ended.
        self.machines.retain(|_, last| now.duration_since(last.used) < REMEMBERED);
        self.machines.insert(machine.clone(), Redemption { issued, used: now });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand::rngs::StdRng;

    use super::*;

    fn name(text: &str) -> MachineName {
        MachineName::new(text).unwrap()
    }

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
    }

    fn of(machine: &str) -> Bearer {
        Bearer::Machine { name: name(machine), pool: PoolName::new("masters").unwrap() }
    }

    fn key(secret: &str) -> TokenKey {
        TokenKey::of(&Secret::new(secret))
    }

    #[test]
    fn a_token_is_checked_by_whoever_has_the_key_and_not_for_long() {
        let mut rng = StdRng::seed_from_u64(1);
        let day = SignedDuration::from_hours(24);
        let token = key("a").issue(of("m0"), day, &mut rng, at(0));
        let said = key("a").check(token.expose(), at(14)).unwrap();
        assert_eq!((said.bearer, said.issued, said.expires), (of("m0"), at(0), at(15)));
        assert_eq!(key("a").check(token.expose(), at(15)), Err(Refusal::Expired), "whatever was asked for");
        assert_eq!(key("b").check(token.expose(), at(1)), Err(Refusal::NotOurs));
        let other = key("a").issue(of("m0"), day, &mut rng, at(0));
        assert_ne!(token.expose(), other.expose());
        let (text, tag) = token.expose().split_once('.').unwrap();
        let mut altered = URL_SAFE_NO_PAD.decode(text).unwrap();
        let place = altered.windows(2).position(|two| two == b"m0").unwrap();
        altered[place + 1] = b'1';
        let altered = format!("{}.{tag}", URL_SAFE_NO_PAD.encode(altered));
        for forged in [&altered, text, "", ".", "a.b", &"a".repeat(5000)] {
            assert_eq!(key("a").check(forged, at(1)), Err(Refusal::NotOurs), "{forged}");
        }
    }

    #[test]
    fn a_machine_has_its_configuration_once_for_each_token() {
        let mut ledger = Redeemed::opened(at(0));
        assert_eq!(ledger.redeem(&name("m0"), at(-1), at(1)), Err(Refusal::TooOld));
        assert_eq!(ledger.redeem(&name("m0"), at(2), at(3)), Ok(()));
        assert_eq!(ledger.redeem(&name("m0"), at(2), at(3)), Err(Refusal::Used));
        assert_eq!(ledger.redeem(&name("m0"), at(1), at(3)), Err(Refusal::Used), "an older one");
        assert_eq!(ledger.redeem(&name("m0"), at(4), at(5)), Ok(()), "it was made again");
        assert_eq!(ledger.redeem(&name("m1"), at(0), at(5)), Ok(()));
        assert_eq!(ledger.machines.len(), 2);
        ledger.redeem(&name("m2"), at(3000), at(3000)).unwrap();
        assert_eq!(ledger.machines.keys().collect::<Vec<_>>(), [&name("m2")], "not for ever");
    }

    #[test]
    fn what_is_kept_and_shown_has_no_token_in_it() {
        let mut rng = StdRng::seed_from_u64(1);
        let token = key("a").issue(of("m0"), LONGEST, &mut rng, at(0));
        let mut ledger = Redeemed::opened(at(0));
        let said = key("a").check(token.expose(), at(1)).unwrap();
        ledger.redeem(&name("m0"), said.issued, at(1)).unwrap();
        let kept = serde_json::to_string(&ledger).unwrap();
        let tag = token.expose().split_once('.').unwrap().1;
        assert!(!kept.contains(tag) && !format!("{ledger:?}{token:?}{said:?}{:?}", key("a")).contains(tag));
    }
}
