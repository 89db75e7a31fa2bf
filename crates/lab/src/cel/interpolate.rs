//! Formats such as `%s has %d`, and what can stand in for their clauses.

/// How a value is to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clause {
    /// `%s`
    Text,
    /// `%d`
    Decimal,
    /// `%f`, with so many digits behind the point.
    Fixed(u8),
    /// `%e`, with so many digits behind the point.
    Scientific(u8),
    /// `%b`
    Binary,
    /// `%x` or `%X`
    Hex { upper: bool },
    /// `%o`
    Octal,
}

/// Digits behind the point when nobody says how many.
const PRECISION: u8 = 6;

impl Clause {
    /// The sentence about a value it cannot show.
    pub(crate) fn complaint(self, found: &str) -> String {
        match self {
            Self::Text => format!(
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
                 and timestamps, was given {found}"
            ),
            Self::Decimal => format!("decimal clause can only be used on integers, was given {found}"),
            Self::Fixed(_) => format!("fixed-point clause can only be used on doubles, was given {found}"),
            Self::Scientific(_) => {
                format!("scientific clause can only be used on doubles, was given {found}")
            }
            Self::Binary => format!("only integers and bools can be formatted as binary, was given {found}"),
            Self::Hex { .. } => {
                format!("only integers, byte buffers, and strings can be formatted as hex, was given {found}")
            }
            Self::Octal => format!("octal clause can only be used on integers, was given {found}"),
        }
    }
}

/// Fills in a format. `fill` is asked for each value, first whether there is one (without a clause) and then to show
/// it.
pub(crate) fn interpolate(
    format: &str,
    mut fill: impl FnMut(usize, Option<Clause>) -> Result<String, String>,
) -> Result<String, String> {
    let mut out = String::with_capacity(format.len());
    let mut rest = format;
    let mut index = 0;
    while let Some(place) = rest.find('%') {
        out.push_str(&rest[..place]);
        rest = &rest[place + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        fill(index, None)?;
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let (clause, after) =
            clause(rest).map_err(|why| format!("could not parse formatting clause: {why}"))?;
        out.push_str(&fill(index, Some(clause))?);
        rest = after;
        index += 1;
    }
    out.push_str(rest);
    Ok(out)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (PRECISION, text),
        Some(after) => {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            let failure = |why: &str| format!("error while parsing precision: {why}");
            if digits == after.len() {
                return Err(failure("could not find end of precision specifier"));
            }
            let precision = after[..digits].parse::<u64>().map_err(|_| {
                let why = if digits == 0 { "invalid syntax" } else { "value out of range" };
                failure(&format!(
                    "error while converting precision to integer: strconv.Atoi: parsing \"{}\": {why}",
                    &after[..digits]
                ))
            })?;
            // The formatter behind it counts up to 255 and starts again.
            (u8::try_from(precision % 256).unwrap_or(0), &after[digits..])
        }
    };
    let letter = rest.as_bytes().first().copied().map_or('\0', char::from);
    let clause = match letter {
        's' => Clause::Text,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' => Clause::Hex { upper: false },
        'X' => Clause::Hex { upper: true },
        'o' => Clause::Octal,
        other => return Err(format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, &rest[1..]))
}
