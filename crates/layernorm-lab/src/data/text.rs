//! A text as numbers: each character is its position in the sorted vocabulary, the set of all characters of the text.
//!
//! ```text
//! |←  training, 90 %  →|← validation, 5 % →|← test, 5 % →|   contiguous parts, in the order of the text
//! ```

use super::error::{Error, Problem};
use super::part;
use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A text, split into three parts.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    /// Its characters in increasing order, each once.
    vocabulary: Vec<char>,
    /// The text, as positions in the vocabulary.
    symbols: Vec<u16>,
    /// The SHA-256 of the text in hexadecimal digits.
    fingerprint: String,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The first 90 %.
    Train,
    /// The next 5 %.
    Validation,
    /// The last 5 %.
    Test,
}

/// The embedded text, for messages.
const EMBEDDED: &str = "embedded shakespeare.txt.gz";
/// Fingerprint of the embedded text.
const EMBEDDED_FINGERPRINT: &str = "696ad824e54a36c8ff63f71fc94890b642a8cd42d810eac470dc69ab08ebea57";
/// Largest text, in bytes.
const MAX_BYTES: u64 = 1 << 26;
/// Shortest text, in characters: ten for validation and ten for the test.
const MIN_CHARACTERS: usize = 200;
/// Smallest and largest vocabulary. With one character there is nothing to predict; with more than this, the text is not
/// one for a character model.
const VOCABULARY: [usize; 2] = [2, 4096];

impl Text {
    /// Size of the embedded text's vocabulary.
    pub const EMBEDDED_SYMBOLS: usize = 76;
    /// Label of the embedded text.
    pub const EMBEDDED_LABEL: &str = "shakespeare";

    /// The embedded text: Macbeth, A Midsummer Night's Dream, The Tempest, Julius Caesar, Romeo and Juliet, and Hamlet.
    /// `assets/LICENSE-SHAKESPEARE` has the licence.
    pub fn embedded() -> Result<Text, Error> {
        let packed = &include_bytes!("../../assets/shakespeare.txt.gz")[..];
        let mut bytes = Vec::new();
        let unpacked = GzDecoder::new(packed).read_to_end(&mut bytes);
        unpacked.map_err(|source| Problem::Gzip { after: bytes.len() as u64, source }.of(EMBEDDED))?;
        Text::from_bytes(&bytes).map_err(|problem| problem.of(EMBEDDED))
    }

    /// Reads a file: UTF-8, 200 characters to 64 MiB, 2 to 4,096 different characters.
    pub fn open(path: &Path) -> Result<Text, Error> {
        let read = || {
            let file = File::open(path).map_err(Problem::io("open"))?;
            let mut bytes = Vec::new();
            file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(Problem::io("read"))?;
            Text::from_bytes(&bytes)
        };
        read().map_err(|problem| problem.of(path))
    }

    fn from_bytes(bytes: &[u8]) -> Result<Text, Problem> {
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Problem::Long { limit: MAX_BYTES });
        }
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let after = error.valid_up_to();
            Problem::Utf8 { after, found: bytes[after] }
        })?;
        Text::new(text)
    }

    /// A text in memory, with the limits of [`Text::open`].
    pub fn new(text: &str) -> Result<Text, Problem> {
        if text.len() as u64 > MAX_BYTES {
            return Err(Problem::Long { limit: MAX_BYTES });
        }
        let found = text.chars().count();
        if found < MIN_CHARACTERS {
            return Err(Problem::Short { expected: MIN_CHARACTERS, found });
        }
        let mut occurs = vec![false; char::MAX as usize + 1];
        text.chars().for_each(|c| occurs[c as usize] = true);
        let vocabulary: Vec<char> = ('\0'..=char::MAX).filter(|&c| occurs[c as usize]).collect();
        if !(VOCABULARY[0]..=VOCABULARY[1]).contains(&vocabulary.len()) {
            return Err(Problem::Vocabulary { expected: VOCABULARY, found: vocabulary.len() });
        }
        let mut number = vec![0; char::MAX as usize + 1];
        (0u16..).zip(&vocabulary).for_each(|(place, &c)| number[c as usize] = place);
        let symbols = text.chars().map(|c| number[c as usize]).collect();
        Ok(Text { vocabulary, symbols, fingerprint: part::hexadecimal(&Sha256::digest(text)) })
    }

    /// A short name that distinguishes its results from those of other texts.
    pub fn label(&self) -> String {
        match self.fingerprint == EMBEDDED_FINGERPRINT {
            true => Text::EMBEDDED_LABEL.to_owned(),
            false => format!("text-{}", &self.fingerprint[..12]),
        }
    }

    /// Its characters in increasing order, each once.
    pub fn vocabulary(&self) -> &[char] {
        &self.vocabulary
    }

    /// Number of characters.
    #[expect(clippy::len_without_is_empty, reason = "there are always characters")]
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// A part, as positions in the vocabulary.
    pub fn part(&self, part: Part) -> &[u16] {
        let held_out = self.len() / 20;
        let (validation, test) = (self.len() - 2 * held_out, self.len() - held_out);
        match part {
            Part::Train => &self.symbols[..validation],
            Part::Validation => &self.symbols[validation..test],
            Part::Test => &self.symbols[test..],
        }
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Text({} characters, {} different)", self.len(), self.vocabulary.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_text_is_split_into_three_parts() {
        let text = Text::embedded().unwrap();
        assert_eq!(text.len(), 729_655);
        assert_eq!((text.vocabulary().len(), &*text.label()), (Text::EMBEDDED_SYMBOLS, Text::EMBEDDED_LABEL));
        let parts = [Part::Train, Part::Validation, Part::Test].map(|part| text.part(part));
        assert_eq!(parts.map(<[u16]>::len), [656_691, 36_482, 36_482]);
        assert_eq!(parts.concat(), text.symbols);
        let read = |symbols: &[u16]| symbols.iter().map(|&s| text.vocabulary[usize::from(s)]).collect::<String>();
        assert!(read(&parts[0][..60]).starts_with("MACBETH\n\nby William Shakespeare\n"), "{}", read(&parts[0][..60]));
        assert!(read(parts[2]).ends_with("ordnance is shot off.]\n"));
    }

    #[test]
    fn any_file_gives_a_text_or_an_error() {
        let prose = "to be or not to be ".repeat(20);
        let text = Text::new(&prose).unwrap();
        assert_eq!(text.vocabulary().iter().collect::<String>(), " benort");
        assert!(text.label().starts_with("text-") && text.label() != Text::new(&prose[1..]).unwrap().label());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let refused = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Text::open(&path).unwrap_err().to_string()
        };
        let many: String = ('\u{4e00}'..'\u{6000}').collect();
        let long = vec![b'a'; MAX_BYTES as usize + 1];
        for (bytes, words) in [
            (&b""[..], "expected at least 200 characters, found 0"),
            (&prose.as_bytes()[..199], "expected at least 200 characters, found 199"),
            (&[b'a'; 500], "expected 2 to 4096 different characters, found 1"),
            (many.as_bytes(), "expected 2 to 4096 different characters, found 4608"),
            (&[&prose.as_bytes()[..5], &[0xff, 0xfe]].concat(), "found the invalid byte 0xff after 5 bytes"),
            (&long, "expected at most 67108864 bytes of text, found more"),
        ] {
            let error = refused(bytes);
            assert!(error.ends_with(words) && error.contains("file: "), "{error}");
        }
        assert!(Text::open(folder.path()).unwrap_err().to_string().contains("cannot "));
        assert!(Text::open(&folder.path().join("none")).unwrap_err().to_string().contains("cannot open"));
    }
}
