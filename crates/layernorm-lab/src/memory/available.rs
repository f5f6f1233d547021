//! Available memory.

use std::fs;

/// Bytes of memory available without swapping, on Linux: the smaller of the free memory and what is left of the
/// process's control group limit. [`None`] elsewhere.
pub fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let free = kibibytes(&text, "MemAvailable")?;
    Some(control_group().map_or(free, |left| free.min(left)))
}

/// What is left of the limit of this process's control group (version 2, else 1), which containers use. Cached files
/// count as free, because they can be evicted.
fn control_group() -> Option<u64> {
    let read = |folder: &str, name: &str| fs::read_to_string(format!("/sys/fs/cgroup/{folder}{name}")).ok();
    let left = |folder: &str, [limit, used, cache]: [&str; 3]| {
        let number = |name: &str| read(folder, name)?.trim().parse::<u64>().ok();
        let cached = read(folder, "memory.stat").and_then(|text| counter(&text, cache)).unwrap_or(0);
        Some(number(limit)?.saturating_sub(number(used)?.saturating_sub(cached)))
    };
    left("", ["memory.max", "memory.current", "file"])
        .or_else(|| left("memory/", ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"]))
}

/// The number in the first line `name N`.
fn counter(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The bytes in the first line `name: N kB`.
fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Formats a number of bytes.
pub(super) fn shown(bytes: f64) -> String {
    match bytes {
        ..1e6 => format!("{bytes:.0} bytes"),
        1e6..1e9 => format!("{:.1} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_meminfo_are_read() {
        let text = "MemTotal:       24625232 kB\nMemAvailable:   123 kB\nMem:  x kB\n";
        assert_eq!(kibibytes(text, "MemAvailable"), Some(123 << 10));
        assert_eq!(kibibytes(text, "Mem"), None);
        assert_eq!(kibibytes("MemAvailable: 99999999999999999999 kB", "MemAvailable"), None);
    }

    #[test]
    fn counters_are_found_by_their_whole_name() {
        assert_eq!(counter("anon 7\nfile_mapped 8\nfile 9\n", "file"), Some(9));
        assert_eq!(counter("anon 7\n", "file"), None);
    }

    #[test]
    fn bytes_are_shown_for_people() {
        assert_eq!([999.0, 1.25e6, 52.34e9].map(shown), ["999 bytes", "1.2 MB", "52.3 GB"]);
    }
}
