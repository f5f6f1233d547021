//! Looks up studies by name.

use super::Error;
use crate::studies::{Study, catalog};
use strsim::levenshtein;

/// Returns the studies with these names, each once and in report order; if there is no name or one is `all`, also all
/// others, except those that only run if they are named.
///
/// # Errors
/// [`Error::Unknown`], with all known names.
pub fn choose(names: &[String]) -> Result<Vec<&'static dyn Study>, Error> {
    let studies = catalog::all();
    let known: Vec<&str> = studies.iter().map(|study| study.name()).collect();
    if let Some(name) = names.iter().find(|name| *name != "all" && !known.contains(&name.as_str())) {
        let names = known.iter().map(|&name| name.to_owned()).collect();
        return Err(Error::Unknown { name: name.clone(), near: near(name, &known).map(str::to_owned), names });
    }
    let all = names.is_empty() || names.iter().any(|name| name == "all");
    let chosen = |study: &&'static dyn Study| {
        let named = names.iter().any(|name| name == study.name());
        named || (all && study.takes().is_none())
    };
    Ok(studies.into_iter().filter(chosen).collect())
}

/// The closest known name: one with this prefix, or with a small edit distance.
fn near<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let begins = known.iter().find(|one| !name.is_empty() && one.starts_with(name));
    begins.copied().or_else(|| {
        let closest = known.iter().map(|&one| (levenshtein(name, one), one)).min()?;
        // At most a third of the letters may differ.
        (3 * closest.0 <= closest.1.len()).then_some(closest.1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let studies = choose(&names).map_err(|error| error.to_string())?;
        Ok(studies.into_iter().map(|study| study.name()).collect())
    }

    #[test]
    fn all_is_every_study_and_names_are_taken_once_in_order() {
        let all = catalog::all().into_iter().filter(|study| study.takes().is_none());
        let all: Vec<&str> = all.map(|study| study.name()).collect();
        assert_eq!(chosen(&[]).unwrap(), all);
        assert_eq!(chosen(&["epsilon", "all"]).unwrap(), all);
        assert!(!all.contains(&"draw-paper"));
        assert_eq!(chosen(&["all", "draw-paper"]).unwrap().len(), all.len() + 1);
        assert_eq!(chosen(&["draw-paper"]).unwrap(), ["draw-paper"]);
        assert_eq!(chosen(&["epsilon", "worked-example", "epsilon"]).unwrap(), ["worked-example", "epsilon"]);
    }

    #[test]
    fn a_slip_is_answered_with_what_was_meant_and_with_all_names() {
        for (name, meant) in [("epsilom", "epsilon"), ("work", "worked-example"), ("train_test", "train-test")] {
            let error = chosen(&[name]).unwrap_err();
            assert!(error.contains(&format!("did you mean {meant}?")), "{error}");
            assert!(catalog::all().iter().all(|study| error.contains(study.name())), "{error}");
        }
        let error = chosen(&["zzz"]).unwrap_err();
        assert!(error.contains("\"zzz\"") && !error.contains("did you mean"), "{error}");
        assert!(!chosen(&[""]).unwrap_err().contains("did you mean"));
    }
}
