//! Displays text from files and paths without letting it control the terminal.

use std::fmt::{self, Display, Write};
use std::path::Path;

/// Displays a text with its control characters escaped; see [`escaped`].
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(&'a str);

/// A text on one line of a terminal: control characters and those that change the text direction are printed as escapes
/// (`\n`, `\u{1b}`), everything else unchanged.
///
/// ```
/// assert_eq!(layernorm_files::escaped("ü\x1b[2J\n").to_string(), r"ü\u{1b}[2J\n");
/// ```
pub fn escaped(text: &str) -> Escaped<'_> {
    Escaped(text)
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if steers(character) {
                write!(f, "{}", character.escape_default())?;
            } else {
                f.write_char(character)?;
            }
        }
        Ok(())
    }
}

fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Displays a path with its control characters escaped; see [`shown`].
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(&'a Path);

/// A path as [`Path::display`] prints it, escaped as by [`escaped`].
pub fn shown(path: &Path) -> Shown<'_> {
    Shown(path)
}

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escaped(&self.0.to_string_lossy()).fmt(f)
    }
}
