//! The C interface of iolens' signal and throttle; `include/iolens_signal.h` is its documentation.
//!
//! No call unwinds into its caller, every pointer may be null, and what is not known is NaN.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use iolens_control::{
    Cached, Cadence, Controller, Limits, Mode, Observed, SignalError, Utilisation,
};

/// Changes when a caller that was compiled against an older header would no longer work.
pub const ABI_VERSION: u32 = 1;

/// An open utilisation signal for one path.
pub struct Signal {
    cached: Cached,
    sampler: Mutex<Utilisation>,
    disks: Vec<String>,
}

/// A throttle controller.
pub struct Brake(Mutex<Controller>);

/// One reading; percentages are NaN where they are not known.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Mean over the disks.
    pub mean_percent: f64,
    /// Utilisation of the busiest disk, in percent.
    pub max_percent: f64,
    /// Share of time with an I/O on any disk.
    pub any_percent: f64,
    /// Length of the interval in nanoseconds.
    pub span_ns: i64,
    /// Number of disks under the path.
    pub disks: u32,
    /// 1 if all of them are known, else 0.
    pub known: u32,
}

/// Copies `text` into `buffer` of `len` bytes, cut where it must be, always ended by NUL.
///
/// # Safety
/// `buffer` is null or has room for `len` bytes.
unsafe fn copy_text(text: &str, buffer: *mut c_char, len: usize) {
    if buffer.is_null() || len == 0 {
        return;
    }
    let n = text.len().min(len - 1);
    // SAFETY: `buffer` has room for `len > n` bytes by the caller's promise, and cannot overlap a Rust string.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, n);
        *buffer.add(n) = 0;
    }
}

/// The version of this interface, [`ABI_VERSION`].
#[unsafe(no_mangle)]
pub extern "C" fn iolens_abi_version() -> u32 {
    ABI_VERSION
}

/// Opens the signal of `path`; see the header.
///
/// # Safety
/// `path` is null or a string ended by NUL; `error` is null or has room for `error_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolens_signal_open(
    path: *const c_char,
    idle_ms: u32,
    busy_ms: u32,
    error: *mut c_char,
    error_len: usize,
) -> *mut Signal {
    if path.is_null() {
        // SAFETY: the caller's promise about `error`.
        unsafe { copy_text("the path is null", error, error_len) };
        return std::ptr::null_mut();
    }
    // SAFETY: not null, and ended by NUL by the caller's promise.
    let path = Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(path) }.to_bytes(),
    ));
    let default = Cadence::default();
    let cadence = Cadence {
        idle: period(idle_ms, default.idle),
        busy: period(busy_ms, default.busy),
    };
    let opened = catch_unwind(|| open(path, cadence))
        .unwrap_or_else(|_| Err("a defect in iolens".to_owned()));
    match opened {
        Ok(signal) => Box::into_raw(Box::new(signal)),
        Err(why) => {
            // SAFETY: the caller's promise about `error`.
            unsafe { copy_text(&why, error, error_len) };
            std::ptr::null_mut()
        }
    }
}

/// 0 milliseconds stand for the default.
fn period(ms: u32, default: Duration) -> Duration {
    if ms == 0 {
        return default;
    }
    Duration::from_millis(ms.into())
}

fn open(path: &Path, cadence: Cadence) -> Result<Signal, String> {
    let sampler = Utilisation::of_path(path).map_err(with_cause)?;
    if let Some(why) = sampler.no_disk() {
        return Err(format!("{}: {why}", path.display()));
    }
    let disks = sampler
        .stack()
        .disks
        .iter()
        .map(|d| d.name.clone())
        .collect();
    let cached = Utilisation::of_path(path)
        .map_err(with_cause)?
        .cached(cadence);
    Ok(Signal {
        cached,
        sampler: Mutex::new(sampler),
        disks,
    })
}

fn with_cause(error: SignalError) -> String {
    match std::error::Error::source(&error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Closes a signal and frees it.
///
/// # Safety
/// `signal` is null or from [`iolens_signal_open`], and not used any more, by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolens_signal_close(signal: *mut Signal) {
    if !signal.is_null() {
        // SAFETY: it came from Box::into_raw and is given back once, by the caller's promise.
        let signal = unsafe { Box::from_raw(signal) };
        // A panic must not unwind into the C caller.
        drop(catch_unwind(AssertUnwindSafe(|| drop(signal))));
    }
}

/// The cached reading: the busiest disk in percent.
///
/// # Safety
/// `signal` is null or from [`iolens_signal_open`] and not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolens_signal_percent(signal: *const Signal) -> f64 {
    // SAFETY: null or a live signal by the caller's promise.
    let Some(signal) = (unsafe { signal.as_ref() }) else {
        return f64::NAN;
    };
    catch_unwind(AssertUnwindSafe(|| signal.cached.percent()))
        .ok()
        .flatten()
        .unwrap_or(f64::NAN)
}

/// Utilisation since the last call.
///
/// # Safety
/// `signal` is null or from [`iolens_signal_open`] and not closed; `out` is null or has room for a reading.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolens_signal_sample(signal: *const Signal, out: *mut Reading) -> i32 {
    // SAFETY: null or a live signal by the caller's promise.
    let Some(signal) = (unsafe { signal.as_ref() }) else {
        return -1;
    };
    if out.is_null() {
        return -1;
    }
    let Ok(reading) = catch_unwind(AssertUnwindSafe(|| {
        signal
            .sampler
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .sample()
    })) else {
        return -1;
    };
    let c = reading.combined;
    let plain = Reading {
        mean_percent: c.map_or(f64::NAN, |c| c.mean_percent),
        max_percent: c.map_or(f64::NAN, |c| c.max_percent),
        any_percent: c.map_or(f64::NAN, |c| c.any_percent),
        span_ns: reading.span_ns,
        disks: u32::try_from(reading.disks.len()).unwrap_or(u32::MAX),
        known: u32::from(c.is_some()),
    };
    // SAFETY: not null, and room for a reading by the caller's promise.
    unsafe { out.write(plain) };
    0
}

/// The name of a disk; the return value is the number of disks.
///
/// # Safety
/// `signal` is null or from [`iolens_signal_open`] and not closed; `name` is null or has room for `name_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolens_signal_disk(
    signal: *const Signal,
    index: u32,
    name: *mut c_char,
    name_len: usize,
) -> u32 {
    // SAFETY: null or a live signal by the caller's promise.
    let Some(signal) = (unsafe { signal.as_ref() }) else {
        return 0;
    };
    let text = signal.disks.get(index as usize).map_or("", String::as_str);
    // SAFETY: the caller's promise about `name`.
    unsafe { copy_text(text, name, name_len) };
    u32::try_from(signal.disks.len()).unwrap_or(u32::MAX)
}

/// Makes a controller; see the header.
///
/// # Safety
/// `error` is null or has room for `error_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolens_brake_new(
    low_percent: f64,
    high_percent: f64,
    max_percent: f64,
    floor_share: f64,
    error: *mut c_char,
    error_len: usize,
) -> *mut Brake {
    let limits = Limits {
        low_percent,
        high_percent,
        max_percent,
        floor: floor_share,
        ..Limits::DEFAULT
    };
    match Controller::new(limits) {
        Ok(c) => Box::into_raw(Box::new(Brake(Mutex::new(c)))),
        Err(why) => {
            // SAFETY: the caller's promise about `error`.
            unsafe { copy_text(&why.to_string(), error, error_len) };
            std::ptr::null_mut()
        }
    }
}

/// Frees a throttle controller.
///
/// # Safety
/// `brake` is null or from [`iolens_brake_new`], and not used any more, by any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolens_brake_free(brake: *mut Brake) {
    if !brake.is_null() {
        // SAFETY: it came from Box::into_raw and is given back once, by the caller's promise.
        drop(unsafe { Box::from_raw(brake) });
    }
}

/// Decides; see the header.
///
/// # Safety
/// `brake` is null or from [`iolens_brake_new`] and not freed; `mode` is null or has room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolens_brake_decide(
    brake: *const Brake,
    at_ns: i64,
    busy_percent: f64,
    foreground_percent: f64,
    mode: *mut u32,
) -> f64 {
    // SAFETY: null or a live controller by the caller's promise.
    let Some(brake) = (unsafe { brake.as_ref() }) else {
        return f64::NAN;
    };
    // A caller in C passes NaN for what it does not know.
    let seen = Observed {
        at_ns,
        busy_percent: Some(busy_percent).filter(|v| !v.is_nan()),
        foreground_percent: Some(foreground_percent).filter(|v| !v.is_nan()),
        foreground_p99_ns: None,
    };
    let decided = catch_unwind(AssertUnwindSafe(|| {
        brake
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .decide(&seen)
    }));
    let Ok(duty) = decided else { return f64::NAN };
    if !mode.is_null() {
        let number = match duty.mode {
            Mode::Off => 0,
            Mode::Hold => 1,
            Mode::Throttle => 2,
            Mode::Emergency => 3,
            Mode::Blind => 4,
        };
        // SAFETY: not null, and room for a number by the caller's promise.
        unsafe { mode.write(number) };
    }
    duty.share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reading_has_the_layout_of_the_header() {
        use std::mem::{offset_of, size_of};
        assert_eq!(size_of::<Reading>(), 40);
        let offsets = [
            offset_of!(Reading, mean_percent),
            offset_of!(Reading, max_percent),
            offset_of!(Reading, any_percent),
        ];
        assert_eq!(offsets, [0, 8, 16]);
        assert_eq!(
            [
                offset_of!(Reading, span_ns),
                offset_of!(Reading, disks),
                offset_of!(Reading, known)
            ],
            [24, 32, 36]
        );
    }

    #[test]
    fn null_is_never_followed_and_text_is_cut() {
        let mut text = [1 as c_char; 8];
        // SAFETY: null pointers are allowed by each function; `text` has room for what is said of it.
        unsafe {
            assert!(
                iolens_signal_open(std::ptr::null(), 0, 0, text.as_mut_ptr(), text.len()).is_null()
            );
            assert_eq!(CStr::from_ptr(text.as_ptr()).to_bytes(), b"the pat");
            assert!(iolens_signal_percent(std::ptr::null()).is_nan());
            assert_eq!(
                iolens_signal_sample(std::ptr::null(), std::ptr::null_mut()),
                -1
            );
            assert_eq!(
                iolens_signal_disk(std::ptr::null(), 0, std::ptr::null_mut(), 0),
                0
            );
            assert!(
                iolens_brake_decide(std::ptr::null(), 0, 1.0, 1.0, std::ptr::null_mut()).is_nan()
            );
            iolens_signal_close(std::ptr::null_mut());
            iolens_brake_free(std::ptr::null_mut());
        }
    }

    #[test]
    fn a_throttle_reduces_the_duty_and_bad_limits_are_explained() {
        let mut text = [0 as c_char; 128];
        // SAFETY: buffers have room for what is said of them; the controller is freed once.
        unsafe {
            assert!(
                iolens_brake_new(80.0, 60.0, 95.0, 0.02, text.as_mut_ptr(), text.len()).is_null()
            );
            assert!(
                CStr::from_ptr(text.as_ptr())
                    .to_string_lossy()
                    .contains("in order")
            );
            let brake = iolens_brake_new(60.0, 80.0, 95.0, 0.02, std::ptr::null_mut(), 0);
            let mut mode = 9;
            assert_eq!(
                iolens_brake_decide(brake, 0, 100.0, f64::NAN, &raw mut mode),
                0.5
            );
            assert_eq!(mode, 3);
            iolens_brake_free(brake);
        }
    }
}
