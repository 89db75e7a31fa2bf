//! Formats of texts that expressions know by name.

use crate::{
    crd::{
        formats::TextFormat,
        names::{as_prefix, dns_label, dns_subdomain, dns1035_label, label_value, qualified_name},
    },
    gourl,
};

/// A format of texts.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    /// The name it is found by.
    pub name: &'static str,
    /// The name it has.
    pub shown: &'static str,
    /// What is wrong with a text.
    pub problems: fn(&str) -> Vec<String>,
    /// How long a pattern for it is.
    pub pattern_size: u64,
}

fn unless(good: bool, why: &str) -> Vec<String> {
    if good { Vec::new() } else { vec![why.to_owned()] }
}

fn accepts(name: &str, text: &str) -> bool {
    TextFormat::named(name).is_some_and(|format| format.accepts(text))
}

static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", shown: "DNS1123Label", problems: dns_label, pattern_size: 30 },
    NamedFormat {
        name: "dns1123Subdomain",
        shown: "DNS1123Subdomain",
        problems: dns_subdomain,
        pattern_size: 60,
    },
    NamedFormat { name: "dns1035Label", shown: "DNS1035Label", problems: dns1035_label, pattern_size: 30 },
    NamedFormat { name: "qualifiedName", shown: "QualifiedName", problems: qualified_name, pattern_size: 60 },
    NamedFormat {
        name: "dns1123LabelPrefix",
        shown: "DNS1123LabelPrefix",
        problems: |text| dns_label(&as_prefix(text)),
        pattern_size: 30,
    },
    NamedFormat {
        name: "dns1123SubdomainPrefix",
        shown: "DNS1123SubdomainPrefix",
        problems: |text| dns_subdomain(&as_prefix(text)),
        pattern_size: 60,
    },
    NamedFormat {
        name: "dns1035LabelPrefix",
        shown: "DNS1035LabelPrefix",
        problems: |text| dns1035_label(&as_prefix(text)),
        pattern_size: 30,
    },
    NamedFormat { name: "labelValue", shown: "LabelValue", problems: label_value, pattern_size: 40 },
    NamedFormat {
        name: "uri",
        shown: "URI",
        problems: |text| gourl::parse_request(text).err().into_iter().collect(),
        pattern_size: 1103,
    },
    NamedFormat {
        name: "uuid",
        shown: "uuid",
        problems: |text| unless(accepts("uuid", text), "does not match the UUID format"),
        pattern_size: 70,
    },
    NamedFormat {
        name: "byte",
        shown: "byte",
        problems: |text| unless(accepts("byte", text), "invalid base64"),
        pattern_size: 84,
    },
    NamedFormat {
        name: "date",
        shown: "date",
        problems: |text| unless(accepts("date", text), "invalid date"),
        pattern_size: 71,
    },
    NamedFormat {
        name: "datetime",
        shown: "datetime",
        problems: |text| unless(accepts("datetime", text), "invalid datetime"),
        pattern_size: 71,
    },
];

/// The format of this name.
pub(crate) fn find(name: &str) -> Option<&'static NamedFormat> {
    FORMATS.iter().find(|format| format.name == name)
}
