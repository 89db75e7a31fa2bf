//! Where machines may run, and how they keep apart.

use trellis_model::placement::{HostRule, Locality, Placement, Preset, Spread, Strength};

use super::generations::{HostPreset, Settings, Spread as SpreadSettings};
use crate::shared::{At, Reader, choose};

const PRESETS: &[(&str, Preset)] = &[("", Preset::None), ("soft", Preset::Soft), ("hard", Preset::Hard)];
const UNSATISFIABLE: &[(&str, Strength)] =
    &[("ScheduleAnyway", Strength::Soft), ("DoNotSchedule", Strength::Hard)];

/// The placement of the pool's machines.
pub(super) fn placement(reader: &mut Reader<'_, '_>, settings: &Settings) -> Placement {
    let mut placement = Placement::default();
    if let Some(preset) = preset(reader, "template.placement.together", settings.together.as_ref()) {
        placement.together = preset;
        // Machines that want to be together do not keep apart unless that is said as well.
        if preset != Preset::None {
            placement.apart = Preset::None;
        }
    }
    if let Some(preset) = preset(reader, "template.placement.apart", settings.apart.as_ref()) {
        placement.apart = preset;
    }
    placement.wanted_hosts.extend(hosts(reader, "template.placement.wantedHosts", settings.wanted.as_ref()));
    placement.avoided_hosts.extend(hosts(
        reader,
        "template.placement.avoidedHosts",
        settings.avoided.as_ref(),
    ));
    location(reader, settings, &mut placement);
    if !settings.spread.is_empty() {
        reader.origin("template.placement.spread", &settings.spread[0].at);
        let mut rules = Vec::new();
        for constraint in &settings.spread {
            rules.extend(spread(reader, constraint));
        }
        placement.spread = Some(rules);
    }
    placement
}

fn preset(reader: &mut Reader<'_, '_>, path: &str, word: Option<&At<String>>) -> Option<Preset> {
    let word = word?;
    reader.origin(path, &word.at);
    choose(reader.cx, &word.at, &word.value, PRESETS)
}

fn hosts(reader: &mut Reader<'_, '_>, path: &str, preset: Option<&HostPreset>) -> Option<HostRule> {
    let preset = preset?;
    let strength = preset.strength.as_ref()?;
    let strength = choose(reader.cx, &strength.at, &strength.value, PRESETS)?.strength()?;
    reader.origin(path, &preset.at);
    let Some(key) = &preset.key else {
        let message = "missing field `key`: the label of the hosts";
        reader.cx.error("missing-field", &preset.at.child("key"), message, "add `key`");
        return None;
    };
    let key = reader.cx.parse(&key.at, &key.value)?;
    let values = preset.values.iter().filter_map(|value| reader.cx.parse(&value.at, &value.value)).collect();
    Some(HostRule { strength, key, values })
}

fn location(reader: &mut Reader<'_, '_>, settings: &Settings, placement: &mut Placement) {
    let Some(location) = &settings.location else { return };
    let part =
        |key: &str, text: &Option<String>| text.clone().map(|text| At::new(location.at.child(key), text));
    let region = part("region", &location.value.region).and_then(At::filled);
    let zone = part("zone", &location.value.zone).and_then(At::filled);
    placement.region = reader.parse("template.placement.region", region.as_ref()).map(Locality::new);
    placement.zones.extend(reader.parse("template.placement.zones", zone.as_ref()).map(Locality::new));
    if region.is_some() || zone.is_some() {
        let message = "machines really run there; the machine-controller only puts labels on them";
        reader.cx.notice("location-scheduled", &location.at, message, "");
    }
}

fn spread(reader: &mut Reader<'_, '_>, constraint: &SpreadSettings) -> Option<Spread> {
    let Some(key) = &constraint.key else {
        let message =
            "missing field `topologyKey`: the host label whose values are the places to spread over";
        reader.cx.error("missing-field", &constraint.at.child("topologyKey"), message, "add `topologyKey`");
        return None;
    };
    let max_skew = match &constraint.max_skew {
        Some(skew) => reader.cx.parse(&skew.at, &skew.value)?,
        None => 1,
    };
    let strength = match &constraint.when_unsatisfiable {
        Some(word) => choose(reader.cx, &word.at, &word.value, UNSATISFIABLE)?,
        None => Strength::Soft,
    };
    Some(Spread { over: reader.cx.parse(&key.at, &key.value)?, max_skew, strength })
}
