//! The page's files, and how they are joined.

use super::packed;

const TEMPLATE: &str = include_str!("page/page.html");

const STYLE: [&str; 15] = [
    include_str!("page/style.css"),
    include_str!("page/hero.css"),
    include_str!("page/course/course.css"),
    include_str!("page/charts.css"),
    include_str!("page/course/01-why.css"),
    include_str!("page/course/02-steps.css"),
    include_str!("page/course/03-axes.css"),
    include_str!("page/course/04-affine.css"),
    include_str!("page/course/05-backward.css"),
    include_str!("page/course/06-blind.css"),
    include_str!("page/course/07-time.css"),
    include_str!("page/course/08-blocks.css"),
    include_str!("page/course/09-play.css"),
    include_str!("page/course/10-choose.css"),
    include_str!("page/print.css"),
];

/// The font of formulas: many systems have none with the table that places subscripts and exponents. `tools/math-font` makes it.
const FONT: &[u8] = include_bytes!("page/fonts/stix-two-math.woff2");

/// The chapters' texts, in reading order.
const CHAPTERS: [&str; 10] = [
    include_str!("page/course/01-why.html"),
    include_str!("page/course/02-steps.html"),
    include_str!("page/course/03-axes.html"),
    include_str!("page/course/04-affine.html"),
    include_str!("page/course/05-backward.html"),
    include_str!("page/course/06-blind.html"),
    include_str!("page/course/07-time.html"),
    include_str!("page/course/08-blocks.html"),
    include_str!("page/course/09-play.html"),
    include_str!("page/course/10-choose.html"),
];

/// Creates the namespace `lab`; comes first and outside any block.
const CORE: &str = include_str!("page/core.js");

/// Each file is wrapped in a block to keep its names local; they share `lab`. The last one starts the page.
const SCRIPTS: [&str; 44] = [
    include_str!("page/format.js"),
    include_str!("page/state.js"),
    include_str!("page/scale.js"),
    include_str!("page/looks.js"),
    include_str!("page/plot.js"),
    include_str!("page/player.js"),
    include_str!("page/compute.js"),
    include_str!("page/save.js"),
    include_str!("page/charts/lines.js"),
    include_str!("page/charts/frames.js"),
    include_str!("page/charts/heatmaps.js"),
    include_str!("page/charts/images.js"),
    include_str!("page/charts/space.js"),
    include_str!("page/charts/scatter3d.js"),
    include_str!("page/charts/histograms.js"),
    include_str!("page/charts/bars.js"),
    include_str!("page/charts/grid.js"),
    include_str!("page/charts/steps.js"),
    include_str!("page/charts/quiz.js"),
    include_str!("page/charts/table.js"),
    include_str!("page/figure.js"),
    include_str!("page/findings.js"),
    include_str!("page/story.js"),
    include_str!("page/runs.js"),
    include_str!("page/course/kit.js"),
    include_str!("page/course/exercise.js"),
    include_str!("page/course/course.js"),
    include_str!("page/course/hero.js"),
    include_str!("page/course/01-why.js"),
    include_str!("page/course/02-steps.js"),
    include_str!("page/course/03-axes.js"),
    include_str!("page/course/04-affine.js"),
    include_str!("page/course/05-backward.js"),
    include_str!("page/course/06-blind.js"),
    include_str!("page/course/07-time.js"),
    include_str!("page/course/08-blocks.js"),
    include_str!("page/course/play-data.js"),
    include_str!("page/course/play-settings.js"),
    include_str!("page/course/play-run.js"),
    include_str!("page/course/play-session.js"),
    include_str!("page/course/play-pictures.js"),
    include_str!("page/course/09-play.js"),
    include_str!("page/course/10-choose.js"),
    include_str!("page/main.js"),
];

/// What a worker runs, after the engine's script.
const WORKER: &str = include_str!("page/worker.js");

/// Added where a server shows the page with progress and controls.
const LIVE_STYLE: &str = include_str!("page/live.css");
const LIVE_SCRIPT: &str = include_str!("page/live.js");

/// Where the page is shown, and with that what it may connect to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Anywhere: nothing.
    File,
    /// The server that sent it.
    Server,
}

impl Place {
    /// The page's Content-Security-Policy.
    pub(super) const fn policy(self) -> &'static str {
        match self {
            Place::File => {
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; \
                 img-src blob: data:; font-src data:"
            }
            Place::Server => {
                "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; worker-src blob:; \
                 img-src blob: data:; font-src data:; connect-src 'self'"
            }
        }
    }
}

/// Fills the template in one pass: inserted text is not searched for placeholders.
pub(super) fn join(title: &str, data: &str, place: Place) -> String {
    let live = place == Place::Server;
    // The last script starts the page.
    let (main, before) = SCRIPTS.split_last().map_or(("", &SCRIPTS[..]), |(main, before)| (*main, before));
    let scripts = before.iter().copied().chain(live.then_some(LIVE_SCRIPT)).chain([main]);
    let script = scripts.fold(format!("\"use strict\";\n{CORE}"), |all, file| all + "{\n" + file + "}\n");
    let mut page = String::with_capacity(TEMPLATE.len() + script.len() + data.len() + 1024 * 1024);
    for piece in TEMPLATE.split("%%") {
        match piece {
            "TITLE" => page.push_str(&escape(title)),
            "POLICY" => page.push_str(place.policy()),
            "FONT" => page.push_str(&packed::base64(FONT)),
            "STYLE" => STYLE.into_iter().chain(live.then_some(LIVE_STYLE)).for_each(|sheet| page.push_str(sheet)),
            "CHAPTERS" => CHAPTERS.iter().for_each(|chapter| page.push_str(chapter)),
            "DATA" => page.push_str(&packed::text(data.as_bytes())),
            "MODULE" => page.push_str(packed::module()),
            "DIGITS" => page.push_str(packed::digits()),
            "ENGINE" => page.push_str(layernorm_web::SCRIPT),
            "WORKER" => page.push_str(WORKER),
            "SCRIPT" => page.push_str(&script),
            text => page.push_str(text),
        }
    }
    page
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::CHAPTERS;

    const MOST_WORDS: usize = 400;

    /// Removes what stands between two marks, the marks included, and puts something else in its place.
    fn without(text: &str, open: &str, close: &str, instead: &str) -> String {
        let mut pieces = text.split(open);
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(first, |all, piece| {
            let (_, rest) = piece.split_once(close).unwrap_or_else(|| panic!("{open} without {close}: {piece}"));
            all + instead + rest
        })
    }

    /// The words of a chapter, its exercises included. A formula within a sentence is one word, a displayed one is none.
    fn words(chapter: &str) -> usize {
        let text = without(chapter, "<math display=\"block\">", "</math>", "");
        let text = without(&text, "<math>", "</math>", "x");
        without(&text, "<", ">", "").split_whitespace().count()
    }

    #[test]
    fn a_chapter_has_at_most_400_words() {
        let sample =
            "<p>Let <math><mi>a</mi></math> be <em>two</em>:</p>\n<math display=\"block\"><mi>b</mi> = 2</math>";
        assert_eq!(words(sample), 4);
        for chapter in CHAPTERS {
            let (count, start) = (words(chapter), chapter.lines().nth(1).unwrap_or_default());
            assert!((100..=MOST_WORDS).contains(&count), "{start} has {count} words");
        }
    }
}
