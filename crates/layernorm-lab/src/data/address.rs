//! Passwords in URLs: `https://user:password@host/…` is shown as `https://***@host/…`.

use std::ops::Range;

/// Position of `user:password` in a URL.
fn place(url: &str) -> Option<Range<usize>> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let authority = url[start..].split(['/', '?', '#']).next()?;
    Some(start..start + authority.rfind('@')?)
}

/// The `user:password` of a URL.
pub(super) fn userinfo(url: &str) -> Option<&str> {
    place(url).map(|place| &url[place]).filter(|text| !text.is_empty())
}

/// The URL without its password, for display.
pub(super) fn redacted(url: &str) -> String {
    let mut shown = url.to_owned();
    if let Some(place) = place(url) {
        shown.replace_range(place, "***");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (url, shown) in [
            ("https://me:secret@host:80/a/b", "https://***@host:80/a/b"),
            ("https://me:s@cr@t@host/", "https://***@host/"),
            ("https://token@host?x=@", "https://***@host?x=@"),
            ("me:secret@host/files", "***@host/files"),
            ("https://host/a@b", "https://host/a@b"),
            ("https://host", "https://host"),
            ("", ""),
        ] {
            assert_eq!(redacted(url), shown);
        }
        assert_eq!(userinfo("http://a:b@c/"), Some("a:b"));
        assert_eq!(userinfo("http://c/a:b@"), None);
    }
}
