//! `layernorm study merge`: the records of several folders in one, and their report.

use super::{about, again, found, told};
use crate::failure::Failure;
use crate::show;
use layernorm_lab::session::{self, Merged, REPORT};
use std::path::PathBuf;

/// Merge the records of several folders, such as shards, and make the report.
///
/// Every finished run of the folders is copied to OUT, with the bytes it has there. Runs that OUT already holds are kept.
/// Records with different settings are refused, and so are folders that a study is using. Nothing is removed from the
/// folders.
///
/// Exit status: 0 if every planned run is there, 1 if some are missing, 2 if the folders do not fit together.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Folder for records and report, created if it does not exist
    out: PathBuf,
    /// Folders of `layernorm study`
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Merged { copied, kept, unfinished } = session::merge(&args.out, &args.folders)?;
    show::say(&format!("copied {}, kept {kept}", show::count(copied, "run")));
    let report = session::report(&args.out, about(again::command())?)?;
    show::print(&format!("{}\n{}", found(report.stories.iter()), told(&args.out.join(REPORT))))?;
    missing(&unfinished).map_or(Ok(()), |missing| Err(Failure::failed(missing)))
}

/// The runs that are missing, if any.
fn missing(unfinished: &[String]) -> Option<String> {
    /// Names shown at most.
    const SHOWN: usize = 5;
    let first = unfinished.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match unfinished.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let words = if unfinished.len() == 1 { "run is" } else { "runs are" };
    (!unfinished.is_empty()).then(|| {
        format!(
            "{} {words} not finished in any folder: {first}{more}\n  finish the shards and merge again, or run the study \
             with --out and --resume",
            unfinished.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_of_missing_runs_is_shortened() {
        let names = |count: usize| (1..=count).map(|n| format!("r{n}")).collect::<Vec<_>>();
        assert_eq!(missing(&[]), None);
        assert!(missing(&names(1)).unwrap().starts_with("1 run is not finished in any folder: r1\n"));
        assert!(
            missing(&names(7))
                .unwrap()
                .starts_with("7 runs are not finished in any folder: r1, r2, r3, r4, r5 and 2 more\n")
        );
    }
}
