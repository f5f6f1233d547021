//! The part of Python's literals that headers need: strings, whole numbers and tuples of them.

use crate::Error;

/// Parses literals one after the other. Whitespace before each is skipped.
pub(crate) struct Literal<'a> {
    text: &'a str,
    /// A byte offset into `text`, always at a character boundary.
    at: usize,
    /// Whether numbers may end in `L`, as Python 2 wrote them.
    long_suffix: bool,
}

impl<'a> Literal<'a> {
    pub(crate) fn new(text: &'a str, long_suffix: bool) -> Self {
        Self { text, at: 0, long_suffix }
    }

    /// Skips whitespace and returns the position of the next literal.
    pub(crate) fn position(&mut self) -> usize {
        // What Python accepts as whitespace inside brackets.
        let rest = self.text[self.at..].trim_start_matches([' ', '\t', '\n', '\r', '\x0c']);
        self.at = self.text.len() - rest.len();
        self.at
    }

    fn rest(&mut self) -> &'a str {
        let at = self.position();
        &self.text[at..]
    }

    /// Consumes `wanted` if it comes next.
    pub(crate) fn eat(&mut self, wanted: char) -> bool {
        let found = self.rest().starts_with(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    /// Consumes `wanted` if it comes next as a whole word.
    pub(crate) fn eat_word(&mut self, wanted: &str) -> bool {
        let found = match self.rest().strip_prefix(wanted) {
            Some(after) => !after.starts_with(|c: char| c.is_alphanumeric() || c == '_'),
            None => false,
        };
        if found {
            self.at += wanted.len();
        }
        found
    }

    pub(crate) fn expect(&mut self, wanted: char, expected: &'static str) -> Result<(), Error> {
        if self.eat(wanted) { Ok(()) } else { Err(self.error(expected)) }
    }

    /// Fails if anything but whitespace follows.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        if self.rest().is_empty() { Ok(()) } else { Err(self.error("nothing after the dictionary")) }
    }

    /// A string in either kind of quotes, optionally with Python 2's `u`. Escapes are not supported, because no supported
    /// header needs them.
    pub(crate) fn string(&mut self, expected: &'static str) -> Result<&'a str, Error> {
        let rest = self.rest();
        let quoted = rest.strip_prefix(['u', 'U']).unwrap_or(rest);
        let Some(quote) = quoted.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
            return Err(self.error(expected));
        };
        let body = &quoted[1..];
        let end = body.find([quote, '\\', '\n']);
        let Some(end) = end.filter(|&end| body[end..].starts_with(quote)) else {
            return Err(self.error("a closed string without escapes"));
        };
        self.at += rest.len() - body.len() + end + 1;
        Ok(&body[..end])
    }

    /// A tuple of whole numbers: `()`, `(2,)`, `(2, 3)`, `(2, 3,)`; not `(2)`, which is a number in Python.
    pub(crate) fn shape(&mut self) -> Result<Vec<usize>, Error> {
        let mut shape = Vec::new();
        self.expect('(', "a tuple of whole numbers")?;
        while !self.eat(')') {
            shape.push(self.length()?);
            if self.eat(',') {
                continue;
            }
            if shape.len() == 1 {
                return Err(self.error("','"));
            }
            self.expect(')', "',' or ')'")?;
            break;
        }
        Ok(shape)
    }

    /// A length in decimal digits.
    fn length(&mut self) -> Result<usize, Error> {
        let rest = self.rest();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number = &rest[..digits];
        // Python rejects leading zeros too.
        let zero_first = number.starts_with('0') && !number.bytes().all(|digit| digit == b'0');
        if number.is_empty() || zero_first {
            return Err(self.error("a length of zero or more in decimal digits"));
        }
        let Ok(length) = number.parse() else {
            return Err(self.error("a length that fits into a machine word"));
        };
        self.at += digits;
        if self.long_suffix && self.text[self.at..].starts_with('L') {
            self.at += 1;
        }
        Ok(length)
    }

    /// If a list or tuple comes next, consumes all of it, whatever it contains.
    pub(crate) fn bracketed(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        if !rest.starts_with(['[', '(']) {
            return None;
        }
        let end = bracket_end(rest);
        self.at += end;
        Some(&rest[..end])
    }

    /// An error about what comes next.
    pub(crate) fn error(&mut self, expected: &'static str) -> Error {
        let at = self.position();
        self.error_at(at, expected)
    }

    /// An error about what is at a [`position`](Self::position).
    pub(crate) fn error_at(&self, at: usize, expected: &'static str) -> Error {
        const LONGEST: usize = 24;
        let (before, after) = self.text.split_at(at);
        Error::Header {
            offset: before.chars().count(),
            expected,
            found: after.trim_end().chars().take(LONGEST).collect(),
        }
    }
}

/// The position at which the bracket that opens `text` is closed, or the end of `text` if it never is.
fn bracket_end(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut quote = None;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') => {
                characters.next();
            }
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            (None, _) => {}
        }
    }
    text.len()
}
