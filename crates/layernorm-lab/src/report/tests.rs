use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use std::fs;

fn small(title: &str) -> Report {
    Report {
        title: title.to_owned(),
        about: About {
            program: "layernorm 0.1.0".into(),
            machine: "a machine".into(),
            made: "2026-11-15".into(),
            command: "layernorm report".into(),
        },
        summary: vec![],
        stories: vec![],
        runs: vec![],
    }
}

fn curve(y: Vec<Option<f64>>) -> Chart {
    Chart {
        id: "loss".into(),
        title: "Loss".into(),
        see: "It falls.".into(),
        picture: Picture::Lines {
            x: Axis { label: "step".into(), ..Axis::default() },
            y: Axis { label: "loss".into(), log: true, ..Axis::default() },
            series: vec![Series { name: "layer norm".into(), x: vec![0.0, 1.0], y, ..Series::default() }],
            scrub: true,
        },
    }
}

fn data(report: &Report) -> serde_json::Value {
    let page = html(report).unwrap();
    let (_, rest) = page.split_once(r#"id="report">"#).unwrap();
    let packed = STANDARD.decode(rest.split_once("</script>").unwrap().0).unwrap();
    serde_json::from_reader(GzDecoder::new(&packed[..])).unwrap()
}

#[test]
fn a_name_cannot_leave_its_script_element() {
    let evil = "</script><script>alert(1)</script> <!-- \u{2028} %%SCRIPT%% &\"";
    let mut report = small(evil);
    report.summary.push(SummaryRow { what: evil.into(), finding: evil.into() });
    let page = html(&report).unwrap();
    assert!(!page.contains("<script>alert"));
    assert_eq!(page.matches("</script>").count(), 6, "those of the page itself");
    assert_eq!(data(&report)["summary"][0]["what"], evil);
    assert!(page.contains("<title>&lt;/script&gt;"));
}

#[test]
fn the_page_asks_the_network_for_nothing() {
    let page = html(&small("quiet")).unwrap();
    assert!(page.contains("default-src 'none'"));
    for outside in ["src=\"", "<link", "@import", "url(http", "fetch(", "XMLHttpRequest", "import("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!page.contains("%%"), "all placeholders of the template are filled");
}

#[test]
fn non_finite_numbers_are_null() {
    let chart = serde_json::from_str::<serde_json::Value>(
        &json::text(&curve(vec![Some(f64::NAN), Some(f64::INFINITY)])).unwrap(),
    )
    .unwrap();
    assert_eq!(chart["kind"], "lines");
    assert_eq!(chart["id"], "loss");
    assert_eq!(chart["y"]["log"], true);
    assert_eq!(chart["series"][0]["y"], serde_json::json!([null, null]));
    assert!(chart["series"][0].get("lo").is_none());
}

#[test]
fn numbers_are_short_and_seeds_exact() {
    let json = |value: f64| json::text(&value).unwrap();
    assert_eq!(json(std::f64::consts::LN_2), "0.6931472");
    assert_eq!(json(64.0), "64");
    assert_eq!(json(-1.0e-5), "-1e-5");
    assert_eq!(json(0.0), "0");
    for value in [1e300, -2.5e-300, f64::MIN_POSITIVE, f64::MAX, 123_456_789.0] {
        let back: f64 = json(value).parse().unwrap();
        assert!(((back - value) / value).abs() < 1e-6, "{value}");
    }
    assert_eq!(json::text(&(1u64 << 53)).unwrap(), "9007199254740992");
    assert_eq!(json::text(&u64::MAX).unwrap(), "\"18446744073709551615\"");
}

#[test]
fn cells_and_tones_are_written_as_the_page_reads_them() {
    let row: Vec<Cell> = vec!["a".into(), 1.5.into(), None.into(), f64::NAN.into()];
    assert_eq!(json::text(&row).unwrap(), r#"["a",1.5,null,null]"#);
    assert_eq!(json::text(&[Tone::Good, Tone::Bad, Tone::None]).unwrap(), r#"["good","bad","none"]"#);
    assert_eq!(json::text(&Highlight::Columns).unwrap(), r#""columns""#);
    let table = Chart {
        id: "t".into(),
        title: "T".into(),
        see: "S".into(),
        picture: Picture::Table(Table { columns: vec!["a".into()], rows: vec![row], notes: vec![] }),
    };
    let json = json::text(&table).unwrap();
    assert_eq!(json, r#"{"id":"t","title":"T","see":"S","kind":"table","columns":["a"],"rows":[["a",1.5,null,null]]}"#);
}

#[test]
fn findings_are_written_as_the_page_reads_them() {
    let finding = |verdict, evidence| Finding {
        id: "a".into(),
        claim: "A".into(),
        source: None,
        evidence,
        result: "r".into(),
        verdict,
        explanation: None,
    };
    let exact = finding(Verdict::Supported, Evidence::Exact { found: "1".into(), expected: "2".into() });
    let expected = r#"{"id":"a","claim":"A","evidence":{"kind":"exact","found":"1","expected":"2"},"result":"r","verdict":"supported"}"#;
    assert_eq!(json::text(&exact).unwrap(), expected);
    let paired = Evidence::Paired(Paired {
        what: "x".into(),
        unit: "u".into(),
        differences: vec![1.0],
        mean: 1.0,
        interval: None,
        p: None,
        claimed: Side::Below,
    });
    let json: serde_json::Value = serde_json::from_str(&json::text(&paired).unwrap()).unwrap();
    assert_eq!((&json["kind"], &json["claimed"]), (&"paired".into(), &"below".into()));
    assert!(json["interval"].is_null());
    let undecided = finding(Verdict::Undecided, paired);
    let count = Verdicts::of([&exact, &undecided, &exact]);
    assert_eq!(count.to_string(), "3 questions: 2 supported, 0 contradicted, 1 undecided");
    assert_eq!(Verdicts::of([&exact]).to_string(), "1 question: 1 supported, 0 contradicted, 0 undecided");
}

#[test]
fn a_report_that_is_too_large_is_rejected_and_the_old_one_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    fs::write(&path, "old").unwrap();
    let error = write(&small(&"x".repeat(LARGEST)), &path).unwrap_err();
    assert!(matches!(error, Error::TooLarge { bytes, largest: LARGEST } if bytes > LARGEST), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "old");
}

#[test]
fn writing_replaces_the_report_and_leaves_no_other_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    fs::write(&path, "old").unwrap();
    write(&small("new"), &path).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), html(&small("new")).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_report_that_cannot_be_written_leaves_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    fs::create_dir_all(taken.join("inside")).unwrap();
    let error = write(&small("new"), &taken).unwrap_err();
    assert!(error.to_string().contains("taken"), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "only the folder that was in the way");

    let error = write(&small("new"), &folder.path().join("missing/report.html")).unwrap_err();
    assert!(matches!(error, Error::Io { .. }));
}

#[test]
fn the_empty_page_is_small() {
    let page = html(&small("small")).unwrap();
    // The module takes 260 kB, the digits 190 kB, the font for formulas 36 kB, the course and the scripts the rest.
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
}
