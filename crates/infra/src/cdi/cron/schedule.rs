//! Times that repeat: minute, hour, day of the month, month and day of the week.

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// How far ahead is looked for the next time: the 29th of February is eight years away at most.
const HORIZON_DAYS: usize = 366 * 9;

/// A schedule that is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScheduleError {
    /// Not five fields.
    #[error("expected exactly 5 fields, found {0}")]
    Fields(usize),
    /// A field that means nothing.
    #[error("bad {field}: {text}")]
    Field {
        /// Which field.
        field: &'static str,
        /// What it says.
        text: String,
    },
}

/// The minutes, hours, days, months and days of the week that are meant, as bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Where both kinds of days are restricted, either is enough.
    either_day: bool,
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

impl Schedule {
    /// Reads a schedule.
    pub(crate) fn parse(text: &str) -> Result<Self, ScheduleError> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(ScheduleError::Fields(fields.len()));
        };
        let mut weekdays = bits("day of week", weekday, 0, 7, 0, WEEKDAYS)?;
        // Sunday has two numbers.
        weekdays |= weekdays >> 7 & 1;
        Ok(Self {
            minutes: bits("minute", minute, 0, 59, 0, &[])?,
            hours: bits("hour", hour, 0, 23, 0, &[])?,
            days: bits("day of month", day, 1, 31, 1, &[])?,
            months: bits("month", month, 1, 12, 1, MONTHS)?,
            weekdays,
            either_day: !day.starts_with(['*', '?']) && !weekday.starts_with(['*', '?']),
        })
    }

    /// The first time after a moment, in UTC; nothing where there is none.
    pub(crate) fn after(&self, moment: Timestamp) -> Option<Timestamp> {
        self.after_in(moment, &TimeZone::UTC)
    }

    /// The first time after a moment by the clocks of a time zone; nothing where there is none.
    pub(crate) fn after_in(&self, moment: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = zone.to_datetime(moment);
        let mut date = start.date();
        let mut earliest = Some(start.time());
        for _ in 0..HORIZON_DAYS {
            if self.is_day(date)
                && let Some(time) = self.time_after(earliest)
            {
                return zone.to_timestamp(DateTime::from_parts(date, time)).ok();
            }
            date = date.checked_add(Span::new().days(1)).ok()?;
            earliest = None;
        }
        None
    }

    fn is_day(&self, date: Date) -> bool {
        let has = |bits: u64, at: i8| bits >> at & 1 == 1;
        let weekday = date.weekday().to_sunday_zero_offset();
        debug_assert_eq!(Weekday::Sunday.to_sunday_zero_offset(), 0);
        let (day, weekday) = (has(self.days, date.day()), has(self.weekdays, weekday));
        has(self.months, date.month()) && if self.either_day { day || weekday } else { day && weekday }
    }

    /// The first time of a day, after another where there is one.
    fn time_after(&self, earliest: Option<Time>) -> Option<Time> {
        let from = earliest.map_or(0, |time| i32::from(time.hour()) * 60 + i32::from(time.minute()) + 1);
        let minute = (from..24 * 60)
            .find(|minute| self.hours >> (minute / 60) & 1 == 1 && self.minutes >> (minute % 60) & 1 == 1)?;
        let (hour, minute) = (i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?);
        Time::new(hour, minute, 0, 0).ok()
    }
}

/// The numbers a field means.
fn bits(
    field: &'static str,
    text: &str,
    least: u32,
    most: u32,
    first_name: u32,
    names: &[&str],
) -> Result<u64, ScheduleError> {
    let bad = || ScheduleError::Field { field, text: text.to_owned() };
    let number = |word: &str| {
        let named = names.iter().position(|name| name.eq_ignore_ascii_case(word));
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + first_name);
        let number = named.or_else(|| word.parse().ok()).ok_or_else(bad)?;
        if (least..=most).contains(&number) { Ok(number) } else { Err(bad()) }
    };
    let mut all = 0;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                (range, step.parse::<usize>().ok().filter(|step| *step > 0).ok_or_else(bad)?)
            }
            None => (part, 1),
        };
        let (from, to) = match range.split_once('-') {
            _ if matches!(range, "*" | "?") => (least, most),
            Some((from, to)) => (number(from)?, number(to)?),
            // A step without an end goes on to the last.
            None if part.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if from > to {
            return Err(bad());
        }
        for one in (from..=to).step_by(step) {
            all |= 1 << one;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str) -> String {
        let next = Schedule::parse(schedule).unwrap().after(after.parse().unwrap());
        next.map(|next| next.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_next_time_is_found() {
        for (schedule, after, expected) in [
            ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
            ("0 */12 * * *", "2026-01-01T00:00:30Z", "2026-01-01T12:00:00Z"),
            ("30 3 * * *", "2026-01-01T03:30:00Z", "2026-01-02T03:30:00Z"),
            ("0 0 1 * *", "2026-01-31T23:59:59Z", "2026-02-01T00:00:00Z"),
            ("0 0 29 feb *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("5,10-12 8 * * mon-fri", "2026-01-03T00:00:00Z", "2026-01-05T08:05:00Z"),
            ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
            ("0 0 13 * 5", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
            ("0 0 13 * ?", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z"),
            ("@hourly", "2026-01-01T00:10:00Z", "2026-01-01T01:00:00Z"),
            ("10/20 * * * *", "2026-01-01T00:10:00Z", "2026-01-01T00:30:00Z"),
            ("0 0 31 2 *", "2026-01-01T00:00:00Z", ""),
        ] {
            assert_eq!(next(schedule, after), expected, "{schedule}");
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        for schedule in [
            "",
            "* * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * * 13 *",
            "a * * * *",
            "*/0 * * * *",
            "5-1 * * * *",
        ] {
            assert!(Schedule::parse(schedule).is_err(), "{schedule}");
        }
    }
}
