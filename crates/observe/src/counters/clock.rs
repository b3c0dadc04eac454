//! Wall clock and locale of the C library: `TZ`, `LC_TIME`, `LC_NUMERIC`.

use std::ffi::CString;
use std::mem::MaybeUninit;

/// Seconds since the Unix epoch, now.
pub fn unix_time_s() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec
}

/// The locale of the environment (`LC_ALL`, `LC_TIME`, `LC_NUMERIC`, `LANG`), for dates and numbers.
///
/// It is independent of the process-wide locale, which it does not change.
#[derive(Debug)]
pub struct Locale {
    handle: libc::locale_t,
}

/// A local time in the time zone of `TZ` (or of the system).
#[derive(Clone, Copy)]
pub struct LocalTime {
    tm: libc::tm,
    unix_s: i64,
}

impl Locale {
    /// Reads the environment. A locale that is not installed is replaced by the C locale, per category.
    pub fn from_environment() -> Locale {
        let mut handle = std::ptr::null_mut();
        for (mask, category) in [
            (libc::LC_TIME_MASK, "LC_TIME"),
            (libc::LC_NUMERIC_MASK, "LC_NUMERIC"),
        ] {
            // The order of setlocale(3); an empty variable counts as none.
            let name = ["LC_ALL", category, "LANG"]
                .into_iter()
                .filter_map(std::env::var_os)
                .find(|value| !value.is_empty());
            let name =
                name.and_then(|n| CString::new(std::os::unix::ffi::OsStringExt::into_vec(n)).ok());
            // The dates and numbers of C.UTF-8 are those of C.
            let plain = name.as_ref().is_none_or(|n| {
                matches!(n.as_bytes(), b"C" | b"POSIX") || n.as_bytes().starts_with(b"C.")
            });
            if let (Some(name), false) = (name, plain) {
                // SAFETY: `name` is a NUL-terminated string; `handle` is null or a locale object from newlocale, which
                // newlocale takes over when it succeeds and leaves valid when it fails.
                let new = unsafe { libc::newlocale(mask, name.as_ptr(), handle) };
                if !new.is_null() {
                    handle = new;
                }
            }
        }
        Locale { handle }
    }

    /// The C locale: English dates, decimal point.
    pub fn c() -> Locale {
        Locale {
            handle: std::ptr::null_mut(),
        }
    }

    /// The decimal point (`.` or `,`, rarely more than one byte).
    pub fn decimal_point(&self) -> Vec<u8> {
        if self.handle.is_null() {
            return b".".to_vec();
        }
        // SAFETY: the handle is a live locale object; the returned string is NUL-terminated and copied at once.
        let text =
            unsafe { std::ffi::CStr::from_ptr(libc::nl_langinfo_l(libc::RADIXCHAR, self.handle)) };
        if text.is_empty() {
            b".".to_vec()
        } else {
            text.to_bytes().to_vec()
        }
    }

    /// `strftime(3)`; empty if the result is longer than 255 bytes or the format holds a NUL.
    pub fn format(&self, time: &LocalTime, format: &str) -> Vec<u8> {
        let Ok(format) = CString::new(format) else {
            return Vec::new();
        };
        let mut out = vec![0u8; 256];
        // SAFETY: `out` has the length passed, `format` is NUL-terminated, `tm` is initialised, and its zone name points
        // into the C library's zone data, which lives as long as the process.
        let n = unsafe {
            if self.handle.is_null() {
                libc::strftime(
                    out.as_mut_ptr().cast(),
                    out.len(),
                    format.as_ptr(),
                    &time.tm,
                )
            } else {
                libc::strftime_l(
                    out.as_mut_ptr().cast(),
                    out.len(),
                    format.as_ptr(),
                    &time.tm,
                    self.handle,
                )
            }
        };
        out.truncate(n);
        out
    }
}

impl Drop for Locale {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle came from newlocale and is freed once.
            unsafe { libc::freelocale(self.handle) };
        }
    }
}

impl LocalTime {
    /// The local time of an instant, in seconds since the Unix epoch. `None` if it has no calendar date.
    pub fn at(unix_s: i64) -> Option<LocalTime> {
        let mut tm = MaybeUninit::<libc::tm>::uninit();
        // SAFETY: both pointers are valid; localtime_r fills `tm` unless it returns null.
        let is_filled = unsafe { !libc::localtime_r(&unix_s, tm.as_mut_ptr()).is_null() };
        if !is_filled {
            return None;
        }
        // SAFETY: it was filled.
        let tm = unsafe { tm.assume_init() };
        Some(LocalTime { tm, unix_s })
    }

    /// Seconds since the Unix epoch.
    pub fn unix_s(&self) -> i64 {
        self.unix_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_the_c_locale() {
        let t = LocalTime::at(1_700_000_000).expect("a date");
        let c = Locale::c();
        let text = |f: &str| String::from_utf8(c.format(&t, f)).expect("ASCII");
        assert_eq!(text("%s"), "1700000000");
        assert_eq!(text("%x"), text("%m/%d/%y"));
        assert_eq!(text("%X"), text("%H:%M:%S"));
        assert_eq!(c.decimal_point(), b".");
        assert!(c.format(&t, &"%F ".repeat(100)).is_empty());
        assert!(LocalTime::at(i64::MAX).is_none());
    }
}
