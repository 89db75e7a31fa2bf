//! How long things take and how they end: the part of every lifecycle that is data.
//!
//! Wherever a real component would wait for the world (a container starts, a guest boots, bytes are copied), the
//! emulated one asks this table: which rules match, for how long, and with what effect. Rules come from a built-in
//! table, from the person who starts the lab, and from the control endpoint while it runs; the newest matching rules
//! win. Chance comes from the seed and the object, so equal runs are equal.

use std::hash::Hasher as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::Object as _;

/// How time passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Nothing takes any time.
    #[default]
    Instant,
    /// Everything takes about as long as on a real cluster.
    Realistic,
}

/// How long something takes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delay {
    /// At least.
    #[serde(default)]
    pub min: f64,
    /// At most; the same as the least where it is smaller.
    #[serde(default)]
    pub max: f64,
}

/// What comes after the delay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// The stage is passed as usual.
    #[default]
    Pass,
    /// The stage fails; the message goes where the real one's would.
    Fail(String),
    /// The stage is never passed, until the rule is gone.
    Hang,
}

/// One rule of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// What the rule is called, for taking it away again; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The stage it is about, such as `guest.boot`.
    pub stage: String,
    /// What the object has to have: JSON pointers and texts that are there; an empty text means that there is nothing.
    #[serde(default, rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub matches: Vec<(String, String)>,
    /// Only under this profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Profile>,
    /// How long it takes.
    #[serde(default)]
    pub delay: Delay,
    /// How likely it is beside other rules that match equally.
    #[serde(default = "one")]
    pub weight: u32,
    /// How often it applies at most; for ever where there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// What comes then.
    #[serde(default)]
    pub effect: Effect,
}

fn one() -> u32 {
    1
}

/// What a stage comes to for one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// How long it takes.
    pub after: Duration,
    /// What comes then.
    pub effect: Effect,
    /// The number of the added rule that decided; nothing where a built-in one did, or none.
    rule: Option<u64>,
}

#[derive(Debug, Default)]
struct Table {
    /// The built-in rules.
    base: Vec<Rule>,
    /// The rules added later by number, newest last.
    added: Vec<(u64, Rule)>,
    /// How many rules were added so far: no two have the same number, even if they have the same name.
    count: u64,
}

/// The table of rules. Clones share it.
#[derive(Debug, Clone)]
pub struct Stages {
    profile: Profile,
    seed: u64,
    table: Arc<RwLock<Table>>,
    changed: Arc<tokio::sync::Notify>,
}

/// How many times as often things are tried again where nothing takes any time.
const QUICKLY: u32 = 10;

/// The rules every lab begins with.
const BUILT_IN: &str = include_str!("stages.json");

impl Stages {
    /// The built-in rules under a profile.
    pub fn new(profile: Profile, seed: u64) -> Self {
        // A test makes sure that the built-in table can be read.
        let base = serde_json::from_str(BUILT_IN).unwrap_or_default();
        let table = Table { base, ..Table::default() };
        Self { profile, seed, table: Arc::new(RwLock::new(table)), changed: Arc::default() }
    }

    /// The profile.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// How long somebody waits before trying again who would wait so long on a real cluster. Where nothing takes any
    /// time, what is waited for is there soon.
    pub fn pause(&self, usual: Duration) -> Duration {
        match self.profile {
            Profile::Instant => usual / QUICKLY,
            Profile::Realistic => usual,
        }
    }

    /// The seed of all chance.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Adds a rule that goes before the older ones.
    pub fn add(&self, rule: Rule) {
        let mut table = self.table.write();
        table.count += 1;
        let number = table.count;
        table.added.push((number, rule));
        drop(table);
        self.changed.notify_waiters();
    }

    /// Takes away the added rules of a name; how many there were.
    pub fn remove(&self, name: &str) -> usize {
        let mut table = self.table.write();
        let before = table.added.len();
        table.added.retain(|(_, rule)| rule.name != name);
        let removed = before - table.added.len();
        drop(table);
        self.changed.notify_waiters();
        removed
    }

    /// Whether anything ever asks for a stage.
    pub fn knows(&self, stage: &str) -> bool {
        self.table.read().base.iter().any(|rule| rule.stage == stage)
    }

    /// The stages anything ever asks for.
    pub fn names(&self) -> Vec<String> {
        let names: std::collections::BTreeSet<String> =
            self.table.read().base.iter().map(|rule| rule.stage.clone()).collect();
        names.into_iter().collect()
    }

    /// Whether the rule that decided an outcome was taken away. Who waits on a stage that hangs asks again then and
    /// only then: each question takes one of the times of a rule, and other rules have nothing to do with it.
    pub fn is_gone(&self, outcome: &Outcome) -> bool {
        outcome.rule.is_some_and(|number| self.table.read().added.iter().all(|(other, _)| *other != number))
    }

    /// The rules that were added.
    pub fn added(&self) -> Vec<Rule> {
        self.table.read().added.iter().map(|(_, rule)| rule.clone()).collect()
    }

    /// What a stage comes to for an object, the `attempt`-th time.
    ///
    /// Of the added rules the newest that matches decides; of the built-in ones those of the most specific match, by
    /// weight. Where no rule matches, the stage is passed at once.
    pub fn outcome(&self, stage: &str, object: &Value, attempt: u64) -> Outcome {
        let chance = self.chance(stage, object.uid(), attempt);
        let mut table = self.table.write();
        let applies = |rule: &Rule| {
            rule.stage == stage
                && rule.profile.is_none_or(|profile| profile == self.profile)
                && rule.times != Some(0)
                && rule.matches.iter().all(|(pointer, text)| holds(object, pointer, text))
        };
        if let Some((number, rule)) = table.added.iter_mut().rev().find(|(_, rule)| applies(rule)) {
            if let Some(times) = &mut rule.times {
                *times -= 1;
            }
            return Outcome { rule: Some(*number), ..outcome_of(rule, chance) };
        }
        let most = table.base.iter().filter(|rule| applies(rule)).map(|rule| rule.matches.len()).max();
        let mut fitting: Vec<_> =
            table.base.iter().filter(|rule| applies(rule) && Some(rule.matches.len()) == most).collect();
        let total: u64 = fitting.iter().map(|rule| u64::from(rule.weight)).sum();
        if total == 0 {
            return Outcome::default();
        }
        let mut pick = chance % total;
        fitting.retain(|rule| {
            let weight = u64::from(rule.weight);
            let here = pick < weight;
            pick = pick.saturating_sub(weight);
            here
        });
        let rule = fitting.first();
        rule.map_or_else(Outcome::default, |rule| outcome_of(rule, chance.rotate_left(32)))
    }

    /// What a stage comes to for an object as soon as no rule lets it hang: that takes one of the times of the rule,
    /// however long it lasts, and ends with the rule.
    pub async fn settled(&self, stage: &str, object: &Value, attempt: u64) -> Outcome {
        loop {
            let outcome = self.outcome(stage, object, attempt);
            if outcome.effect != Effect::Hang {
                return outcome;
            }
            loop {
                let changed = self.changed.notified();
                if self.is_gone(&outcome) {
                    break;
                }
                changed.await;
            }
        }
    }

    /// Waits until a stage is passed; the message where it fails.
    pub async fn pass(&self, stage: &str, object: &Value, attempt: u64) -> Result<(), String> {
        let outcome = self.settled(stage, object, attempt).await;
        if !outcome.after.is_zero() {
            tokio::time::sleep(outcome.after).await;
        }
        match outcome.effect {
            Effect::Fail(message) => Err(message),
            Effect::Pass | Effect::Hang => Ok(()),
        }
    }

    /// A number that depends on nothing but the seed and what it is for.
    pub fn chance(&self, stage: &str, what: &str, attempt: u64) -> u64 {
        let mut hasher = Fnv::new(self.seed);
        for part in [stage.as_bytes(), what.as_bytes(), &attempt.to_le_bytes()] {
            hasher.write(part);
            hasher.write(&[0xff]);
        }
        hasher.finish()
    }
}

fn holds(object: &Value, pointer: &str, text: &str) -> bool {
    // What was made for an object is known by that object's name too: people name the DataVolume, not its claim.
    if pointer == "/metadata/name" && !text.is_empty() {
        let owners = object.list("/metadata/ownerReferences").iter().map(|owner| owner.text("/name"));
        let bound = ["/spec/claimRef/name", "/spec/volumeSnapshotRef/name"].map(|place| object.text(place));
        if owners.chain(bound).any(|name| name == text) {
            return true;
        }
    }
    match object.pointer(pointer) {
        None | Some(Value::Null) => text.is_empty(),
        Some(Value::String(found)) => found == text,
        Some(Value::Bool(found)) => text.parse() == Ok(*found),
        Some(Value::Number(found)) => found.to_string().as_str() == text,
        Some(_) => false,
    }
}

fn outcome_of(rule: &Rule, chance: u64) -> Outcome {
    let spread = (rule.delay.max - rule.delay.min).max(0.0);
    let share = f64::from(u32::try_from(chance % 1000).unwrap_or_default()) / 1000.0;
    let after = Duration::try_from_secs_f64(rule.delay.min + spread * share).unwrap_or_default();
    Outcome { after, effect: rule.effect.clone(), rule: None }
}

/// A small hash that is the same everywhere and for ever, unlike the standard library's.
#[derive(Debug)]
pub struct Fnv(u64);

impl Fnv {
    /// A hash that begins with a seed.
    pub fn new(seed: u64) -> Self {
        let mut hash = Self(0xcbf2_9ce4_8422_2325);
        hash.write(&seed.to_le_bytes());
        hash
    }
}

impl std::hash::Hasher for Fnv {
    fn finish(&self) -> u64 {
        // The last bits of the plain hash hardly depend on the first bytes.
        let mut mixed = self.0;
        mixed ^= mixed >> 33;
        mixed = mixed.wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_built_in_table_can_be_read() {
        let rules: Vec<Rule> = serde_json::from_str(BUILT_IN).unwrap();
        assert!(!rules.is_empty());
        assert!(rules.iter().all(|rule| rule.delay.max >= rule.delay.min), "a range runs backwards");
    }

    /// Texts in the code that look like stages and are none.
    const OTHERS: [&str; 7] = [
        "domain.memory",
        "domain.volumes",
        "fabric.turn",
        "image.size",
        "memory.intensive",
        "scheduler.pick",
        "volume.place",
    ];

    /// The texts in the code that are two words with a dot between.
    fn texts(folder: &std::path::Path, found: &mut std::collections::BTreeSet<String>) {
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                texts(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap();
                let pairs = code.split('"').filter(|text| {
                    text.split_once('.').is_some_and(|(area, rest)| is_word(area) && is_word(rest))
                });
                found.extend(pairs.map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_stage_that_is_asked_for_is_known_and_the_other_way_round() {
        let mut found = std::collections::BTreeSet::new();
        texts(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut found);
        let known: std::collections::BTreeSet<String> =
            Stages::new(Profile::Instant, 0).names().into_iter().collect();
        let areas: std::collections::BTreeSet<&str> =
            known.iter().filter_map(|stage| stage.split('.').next()).collect();
        found.retain(|text| {
            text.split('.').next().is_some_and(|area| areas.contains(area))
                && !OTHERS.contains(&text.as_str())
        });
        let unknown: Vec<_> = found.difference(&known).collect();
        assert!(unknown.is_empty(), "these are not in stages.json, or belong to OTHERS: {unknown:?}");
        let idle: Vec<_> = known.difference(&found).collect();
        assert!(idle.is_empty(), "nobody asks for {idle:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn added_rules_win_and_can_be_counted() {
        let stages = Stages::new(Profile::Instant, 7);
        let object = json!({"metadata": {"uid": "u", "name": "a"}});
        assert_eq!(stages.pass("guest.boot", &object, 0).await, Ok(()));
        stages.add(Rule {
            name: "broken".to_owned(),
            stage: "guest.boot".to_owned(),
            matches: vec![("/metadata/name".to_owned(), "a".to_owned())],
            profile: None,
            delay: Delay { min: 2.0, max: 2.0 },
            weight: 1,
            times: Some(1),
            effect: Effect::Fail("no bootable device".to_owned()),
        });
        let start = tokio::time::Instant::now();
        assert_eq!(stages.pass("guest.boot", &object, 0).await, Err("no bootable device".to_owned()));
        assert_eq!(start.elapsed(), Duration::from_secs(2));
        assert_eq!(stages.pass("guest.boot", &object, 0).await, Ok(()));
        assert_eq!(stages.remove("broken"), 1);
    }

    #[test]
    fn an_object_is_known_by_its_owner_too() {
        let prime = json!({"metadata": {"name": "prime-1", "ownerReferences": [{"name": "r1"}]}});
        assert!(holds(&prime, "/metadata/name", "r1") && holds(&prime, "/metadata/name", "prime-1"));
        assert!(!holds(&prime, "/metadata/name", "r2"));
        let content =
            json!({"metadata": {"name": "snapcontent-1"}, "spec": {"volumeSnapshotRef": {"name": "s"}}});
        assert!(holds(&content, "/metadata/name", "s"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_hangs_goes_on_when_the_rule_is_gone() {
        let stages = Stages::new(Profile::Instant, 7);
        let rule = |name: &str, times: Option<u32>| -> Rule {
            serde_json::from_value(json!({"name": name, "stage": "s", "effect": "hang", "times": times}))
                .unwrap()
        };
        stages.add(rule("x", Some(1)));
        let (other, object) = (stages.clone(), json!({}));
        let task = tokio::spawn(async move { other.pass("s", &object, 0).await });
        tokio::time::sleep(Duration::from_secs(5)).await;
        // Other rules come and go without letting it pass, even where the rule has no times left.
        stages.add(Rule { stage: "other".to_owned(), ..rule("y", None) });
        tokio::time::sleep(Duration::from_secs(5)).await;
        stages.remove("y");
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!task.is_finished());
        stages.remove("x");
        assert_eq!(task.await.unwrap(), Ok(()));
    }

    #[test]
    fn chance_depends_on_the_seed_alone() {
        let (one, same, other) = (
            Stages::new(Profile::Realistic, 1),
            Stages::new(Profile::Realistic, 1),
            Stages::new(Profile::Realistic, 2),
        );
        assert_eq!(one.chance("a", "b", 0), same.chance("a", "b", 0));
        assert_ne!(one.chance("a", "b", 0), other.chance("a", "b", 0));
        assert_ne!(one.chance("a", "b", 0), one.chance("a", "b", 1));
    }
}
