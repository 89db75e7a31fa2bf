//! Addresses, networks, URLs, amounts, versions and formats.

use std::net::IpAddr;

use crate::{
    cel::{
        amount::Amount,
        named_formats::{self, NamedFormat},
        semver::Semver,
        value::{Failure, Result, Val},
    },
    gonet, gotext, gourl,
};

use super::Call;

pub(super) fn find(name: &str) -> Option<Call> {
    address(name)
        .or_else(|| url(name))
        .or_else(|| amount(name))
        .or_else(|| version(name))
        .or_else(|| format(name))
}

fn one_text<'a, 't>(args: &'t [Val<'a>]) -> Result<'a, &'t str> {
    match args {
        [Val::Text(text), ..] => Ok(text),
        _ => Err(Failure::no_overload()),
    }
}

fn parse_ip(text: &str) -> std::result::Result<IpAddr, String> {
    let shown = gotext::quote(text);
    let address = gonet::parse_address(text)
        .map_err(|why| format!("IP Address {shown} parse error during conversion from string: {why}"))?;
    if address.zone {
        return Err(format!("IP address {shown} with zone value is not allowed"));
    }
    if gonet::is_mapped(address.ip) {
        return Err(format!("IPv4-mapped IPv6 address {shown} is not allowed"));
    }
    Ok(address.ip)
}

pub(super) fn ip<'a>(args: &[Val<'a>]) -> Result<'a> {
    parse_ip(one_text(args)?).map(Val::Ip).map_err(Failure::new)
}

fn parse_cidr(text: &str) -> std::result::Result<(IpAddr, u8), String> {
    let (address, bits) = gonet::parse_prefix(text)
        .map_err(|why| format!("network address parse error during conversion from string: {why}"))?;
    if gonet::is_mapped(address) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", gotext::quote(text)));
    }
    Ok((address, bits))
}

fn cidr<'a>(text: &str) -> Result<'a, (IpAddr, u8)> {
    parse_cidr(text).map_err(|why| {
        Failure::new(format!("network address parse error during conversion from string: {why}"))
    })
}

/// The first bits of an address; the rest is zero.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits.min(32))).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits.min(128))).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

fn contains(network: IpAddr, bits: u8, address: IpAddr) -> bool {
    network.is_ipv4() == address.is_ipv4() && masked(network, bits) == masked(address, bits)
}

fn test_ip<'a>(args: &[Val<'a>], test: fn(IpAddr) -> bool) -> Result<'a> {
    match args {
        [Val::Ip(address)] => Ok(Val::Bool(test(*address))),
        _ => Err(Failure::no_overload()),
    }
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local(address)
        || broadcast)
}

fn address(name: &str) -> Option<Call> {
    Some(match name {
        "isIP" => |args| Ok(Val::Bool(parse_ip(one_text(args)?).is_ok())),
        "ip.isCanonical" => |args| {
            let text = one_text(args)?;
            let address = parse_ip(text).map_err(Failure::new)?;
            Ok(Val::Bool(address.to_string() == text))
        },
        "family" => |args| match args {
            [Val::Ip(address)] => Ok(Val::Int(if address.is_ipv4() { 4 } else { 6 })),
            _ => Err(Failure::no_overload()),
        },
        "isUnspecified" => |args| test_ip(args, |address| address.is_unspecified()),
        "isLoopback" => |args| test_ip(args, |address| address.is_loopback()),
        "isLinkLocalMulticast" => |args| test_ip(args, is_link_local_multicast),
        "isLinkLocalUnicast" => |args| test_ip(args, is_link_local),
        "isGlobalUnicast" => |args| test_ip(args, is_global_unicast),
        "isCIDR" => |args| Ok(Val::Bool(parse_cidr(one_text(args)?).is_ok())),
        "cidr" => |args| cidr(one_text(args)?).map(|(address, bits)| Val::Cidr(address, bits)),
        "containsIP" => |args| match args {
            [Val::Cidr(network, bits), Val::Ip(address)] => {
                Ok(Val::Bool(contains(*network, *bits, *address)))
            }
            [Val::Cidr(network, bits), Val::Text(text)] => {
                let address = parse_ip(text).map_err(|_| Failure::no_overload())?;
                Ok(Val::Bool(contains(*network, *bits, address)))
            }
            _ => Err(Failure::no_overload()),
        },
        "containsCIDR" => |args| {
            let (network, bits, other, other_bits) = match args {
                [Val::Cidr(network, bits), Val::Cidr(other, other_bits)] => {
                    (*network, *bits, *other, *other_bits)
                }
                [Val::Cidr(network, bits), Val::Text(text)] => {
                    let (other, other_bits) = cidr(text)?;
                    (*network, *bits, other, other_bits)
                }
                _ => return Err(Failure::no_overload()),
            };
            Ok(Val::Bool(bits <= other_bits && contains(network, bits, other)))
        },
        "prefixLength" => |args| match args {
            [Val::Cidr(_, bits)] => Ok(Val::Int(i64::from(*bits))),
            _ => Err(Failure::no_overload()),
        },
        "masked" => |args| match args {
            [Val::Cidr(address, bits)] => Ok(Val::Cidr(masked(*address, *bits), *bits)),
            _ => Err(Failure::no_overload()),
        },
        _ => return None,
    })
}

fn url(name: &str) -> Option<Call> {
    macro_rules! part {
        ($part:expr) => {
            |args| match args {
                [Val::Url(url)] => Ok($part(url)),
                _ => Err(Failure::no_overload()),
            }
        };
    }
    Some(match name {
        "isURL" => |args| Ok(Val::Bool(gourl::parse_request(one_text(args)?).is_ok())),
        "url" => |args| {
            let text = one_text(args)?;
            let found = gourl::parse_request(text).and_then(|_| gourl::parse_any(text));
            found
                .map(|url| Val::Url(url.into()))
                .map_err(|why| Failure::new(format!("URL parse error during conversion from string: {why}")))
        },
        "getScheme" => part!(|url: &gourl::Url| Val::text(url.scheme.as_str())),
        "getHost" => part!(|url: &gourl::Url| Val::text(url.host.as_str())),
        "getHostname" => part!(|url: &gourl::Url| Val::text(url.hostname())),
        "getPort" => part!(|url: &gourl::Url| Val::text(url.port())),
        "getEscapedPath" => part!(|url: &gourl::Url| Val::text(url.escaped_path())),
        "getQuery" => part!(|url: &gourl::Url| {
            let entries = url.query().into_iter().filter_map(|(key, values)| {
                let key = Val::text(key);
                Some((key.key()?, (key, Val::texts(values))))
            });
            Val::Map(crate::cel::value::Map::Made(std::sync::Arc::new(entries.collect())))
        }),
        _ => return None,
    })
}

fn amount(name: &str) -> Option<Call> {
    Some(match name {
        "isQuantity" => |args| Ok(Val::Bool(Amount::read(one_text(args)?).is_ok())),
        "quantity" => |args| {
            Amount::read(one_text(args)?).map(|amount| Val::Quantity(amount.into())).map_err(Failure::new)
        },
        "sign" => |args| match args {
            [Val::Quantity(amount)] => Ok(Val::Int(amount.sign())),
            _ => Err(Failure::no_overload()),
        },
        "isInteger" => |args| match args {
            [Val::Quantity(amount)] => Ok(Val::Bool(amount.as_integer().is_some())),
            _ => Err(Failure::no_overload()),
        },
        "asInteger" => |args| match args {
            [Val::Quantity(amount)] => amount
                .as_integer()
                .map(Val::Int)
                .ok_or_else(|| Failure::new("cannot convert value to integer")),
            _ => Err(Failure::no_overload()),
        },
        "asApproximateFloat" => |args| match args {
            [Val::Quantity(amount)] => Ok(Val::Double(amount.as_float())),
            _ => Err(Failure::no_overload()),
        },
        "add" => |args| combined(args, false),
        "sub" => |args| combined(args, true),
        _ => return None,
    })
}

fn combined<'a>(args: &[Val<'a>], subtract: bool) -> Result<'a> {
    let sum = match args {
        [Val::Quantity(one), Val::Quantity(other)] => one.combined(other, subtract),
        [Val::Quantity(one), Val::Int(other)] => one.combined(&Amount::of(*other), subtract),
        _ => return Err(Failure::no_overload()),
    };
    Ok(Val::Quantity(sum.into()))
}

fn version(name: &str) -> Option<Call> {
    fn read<'a>(args: &[Val<'a>]) -> Result<'a, std::result::Result<Semver, String>> {
        match args {
            [Val::Text(text)] => Ok(Semver::read(text)),
            [Val::Text(text), Val::Bool(tolerant)] => {
                Ok(if *tolerant { Semver::read_tolerant(text) } else { Semver::read(text) })
            }
            _ => Err(Failure::no_overload()),
        }
    }
    macro_rules! part {
        ($part:ident) => {
            |args| match args {
                [Val::Semver(version)] => Ok(Val::Int(version.$part.cast_signed())),
                _ => Err(Failure::no_overload()),
            }
        };
    }
    Some(match name {
        "isSemver" => |args| Ok(Val::Bool(read(args)?.is_ok())),
        "semver" => |args| read(args)?.map(|version| Val::Semver(version.into())).map_err(Failure::new),
        "major" => part!(major),
        "minor" => part!(minor),
        "patch" => part!(patch),
        _ => return None,
    })
}

fn format(name: &str) -> Option<Call> {
    fn known<'a>(found: Option<&'static NamedFormat>) -> Result<'a> {
        found.map(Val::Format).ok_or_else(Failure::no_overload)
    }
    macro_rules! constant {
        ($name:literal) => {
            |_| known(named_formats::find($name))
        };
    }
    Some(match name {
        "validate" => |args| match args {
            [Val::Format(format), Val::Text(text)] => {
                let problems = (format.problems)(text);
                Ok(if problems.is_empty() { Val::Optional(None) } else { Val::some(Val::texts(problems)) })
            }
            _ => Err(Failure::no_overload()),
        },
        "format.named" => |args| {
            let found = named_formats::find(one_text(args)?);
            Ok(found.map_or(Val::Optional(None), |format| Val::some(Val::Format(format))))
        },
        "format.dns1123Label" => constant!("dns1123Label"),
        "format.dns1123Subdomain" => constant!("dns1123Subdomain"),
        "format.dns1035Label" => constant!("dns1035Label"),
        "format.qualifiedName" => constant!("qualifiedName"),
        "format.dns1123LabelPrefix" => constant!("dns1123LabelPrefix"),
        "format.dns1123SubdomainPrefix" => constant!("dns1123SubdomainPrefix"),
        "format.dns1035LabelPrefix" => constant!("dns1035LabelPrefix"),
        "format.labelValue" => constant!("labelValue"),
        "format.uri" => constant!("uri"),
        "format.uuid" => constant!("uuid"),
        "format.byte" => constant!("byte"),
        "format.date" => constant!("date"),
        "format.datetime" => constant!("datetime"),
        _ => return None,
    })
}
