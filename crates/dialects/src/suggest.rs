//! What someone may have meant.

/// How many names are listed before the rest is left out.
const MAX_LISTED: usize = 12;

/// The name that was most likely meant, if one is close enough to be worth mentioning.
pub fn closest<'name>(wrong: &str, names: &[&'name str]) -> Option<&'name str> {
    equal_but_for_spelling(wrong, names).or_else(|| {
        // Short names are close to everything; long ones may bear two or three slips.
        let tolerated = match wrong.chars().count() {
            0..=2 => 0,
            3..=4 => 1,
            5..=9 => 2,
            _ => 3,
        };
        let lower = wrong.to_lowercase();
        names
            .iter()
            .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), *name))
            .filter(|(distance, _)| *distance <= tolerated)
            .min_by_key(|(distance, _)| *distance)
            .map(|(_, name)| name)
    })
}

/// The name that differs in case, dashes, underscores or a plural s only.
pub fn equal_but_for_spelling<'name>(wrong: &str, names: &[&'name str]) -> Option<&'name str> {
    let folded = fold(wrong);
    names
        .iter()
        .find(|name| fold(name) == folded)
        .or_else(|| names.iter().find(|name| plural(&fold(name), &folded)))
        .copied()
}

fn fold(name: &str) -> String {
    name.chars()
        .filter(|character| !matches!(character, '-' | '_' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

fn plural(one: &str, other: &str) -> bool {
    let singulars = |name: &str| {
        let ies = name.strip_suffix("ies").map(|stem| format!("{stem}y"));
        let es = name.strip_suffix("es").map(str::to_owned);
        let s = name.strip_suffix('s').map(str::to_owned);
        [ies, es, s]
    };
    singulars(one).iter().flatten().any(|singular| singular == other)
        || singulars(other).iter().flatten().any(|singular| singular == one)
}

/// The names of the fields that are known, as a sentence.
pub fn known_fields(names: &[&str]) -> String {
    if names.is_empty() {
        "no fields are known here".to_owned()
    } else {
        format!("known fields: {}", listed(names))
    }
}

/// Names with commas between them, the first dozen only.
pub fn listed(names: &[&str]) -> String {
    let mut list =
        names.iter().take(MAX_LISTED).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if names.len() > MAX_LISTED {
        list.push_str(", …");
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognized() {
        let names = ["replicas", "name", "storageClass", "policy", "cpu"];
        for (wrong, meant) in [
            ("replica", Some("replicas")),
            ("Replicas", Some("replicas")),
            ("replcias", Some("replicas")),
            ("storage-class", Some("storageClass")),
            ("storage_class", Some("storageClass")),
            ("policies", Some("policy")),
            ("nam", Some("name")),
            ("cpus", Some("cpu")),
            ("gpu", Some("cpu")),
            ("up", None),
            ("memory", None),
            ("", None),
        ] {
            assert_eq!(closest(wrong, &names), meant, "{wrong}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let names = ["a"; 13];
        assert!(listed(&names).ends_with(", …"));
        assert_eq!(listed(&names).matches("`a`").count(), 12);
        assert!(!listed(&names[..12]).contains('…'));
        assert_eq!(known_fields(&["a", "b"]), "known fields: `a`, `b`");
    }
}
