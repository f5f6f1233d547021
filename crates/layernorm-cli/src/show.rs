//! All of the program's output: text and JSON on stdout, aligned tables, lines on stderr. It goes through this module because
//! `println!` and `eprintln!` panic if they cannot write.

use crate::failure::Failure;
use layernorm_files::escaped;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};

/// Prints to stdout. A closed pipe, as with `head`, is not an error. Names of files and tensors may be part of the text: control
/// characters other than line breaks and tabs are printed as escapes.
pub fn print(text: &str) -> Result<(), Failure> {
    print_verbatim(&harmless(text))
}

/// Prints text for another program to stdout, unchanged.
pub fn print_verbatim(text: &str) -> Result<(), Failure> {
    write(text).map(drop)
}

/// Prints a part of a longer output at once, as [`print`] does; returns whether anyone still reads it.
pub fn print_part(text: &str) -> Result<bool, Failure> {
    write(&harmless(text))
}

/// Writes to stdout; returns whether it is open.
fn write(text: &str) -> Result<bool, Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::bad_input(format!("standard output: {error}"))),
    }
}

/// Prints a line to stderr, escaped as by [`print`]. If stderr is closed or full, the line is lost and the program continues.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", harmless(line));
}

/// The text without characters that control the terminal.
fn harmless(text: &str) -> String {
    let part = |part: &str| escaped(part).to_string();
    let line = |line: &str| line.split('\t').map(part).collect::<Vec<_>>().join("\t");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Prints one JSON object to stdout.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::bad_input(format!("JSON: {error}")))?;
    print_verbatim(&format!("{text}\n"))
}

/// A number with a noun that takes an s in the plural: `1 run`, `0 runs`, `12 runs`.
pub fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// An integer with commas between the thousands.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A non-negative number with two or three significant digits: 0.54, 3.4, 57.1, 6,180.
pub fn significant(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        n if n < 0.995 => format!("{n:.2}"),
        n if n < 99.95 => format!("{n:.1}"),
        n if n < 1e12 => {
            let step = 10f64.powi(n.log10().floor() as i32 - 2);
            thousands(((n / step).round() * step).round() as u64)
        }
        n => format!("{n:.1e}"),
    }
}

/// Rows of cells in aligned columns: the first `left` columns are left-aligned, the others right-aligned.
#[derive(Debug)]
pub struct Table {
    left: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new<'a>(left: usize, headings: impl IntoIterator<Item = &'a str>) -> Self {
        Table { left, rows: vec![headings.into_iter().map(str::to_owned).collect()] }
    }

    /// Adds a row. An empty row becomes an empty line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table as text, each line indented by two spaces.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Not a width in the format string, which is limited to 65,535.
                let padding = " ".repeat(width - cell.chars().count());
                line += &if column < self.left { format!("  {cell}{padding}") } else { format!("  {padding}{cell}") };
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }
}

/// A progress line on stderr, if that is a terminal; removed at the end.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
}

impl Progress {
    /// Starts without a line.
    pub fn new() -> Self {
        Progress { terminal: io::stderr().is_terminal() }
    }

    /// Replaces the line.
    pub fn say(&self, text: &str) {
        if self.terminal {
            // A progress line may be lost, so a failure to write it is ignored.
            let _ = write!(io::stderr(), "\r\x1b[2K{text} …");
        }
    }

    /// Removes the line, so that something else can be printed.
    pub fn clear(&self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        for (number, text) in [
            (0.0, "0"),
            (0.544, "0.54"),
            (3.36, "3.4"),
            (57.12, "57.1"),
            (9994.0, "9,990"),
            (5_963_776.0, "5,960,000"),
            (1e30, "1.0e30"),
        ] {
            assert_eq!(significant(number), text);
        }
        assert_eq!(thousands(12), "12");
        assert_eq!(thousands(1_234_567), "1,234,567");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(1, ["what", "µs"]);
        table.row(["copy".to_owned(), "12.5".to_owned()]);
        table.row(["×".to_owned(), "3".to_owned()]);
        assert_eq!(table.render(), "  what    µs\n  copy  12.5\n  ×        3\n");
        table.row(["x".repeat(70_000), "4".to_owned()]);
        assert!(table.render().ends_with("x     4\n"));
    }
}
