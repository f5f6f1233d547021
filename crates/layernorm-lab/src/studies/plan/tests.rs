use crate::language;
use crate::studies::tools::testing;
use crate::studies::{RunPlan, Settings, catalog};
use crate::training::Spec;
use serde::Deserialize;

/// Settings as earlier sessions wrote them. If a text changes, their runs are not recognized and start again.
const ON_DISK: [(&str, &str); 8] = [
    (
        "worked-example",
        r#"{"bias":[0.0,0.0,1.0,-1.0],"eps":0.00001,"gain":[1.0,2.0,1.0,0.5],"x":[[1.0,2.0,3.0,6.0],[10.0,20.0,30.0,60.0],[4.0,5.0,3.0,0.0]]}"#,
    ),
    ("invariance-1", r#"{"amounts":[2.0,0.5,10.0],"cases":32,"eps":[0.0,0.00001],"inputs":24,"seed":1,"units":40}"#),
    ("epsilon-1", r#"{"elements":200,"eps":[0.001,0.00001,1e-8,1e-12],"rows":8,"seed":1}"#),
    ("implementations-512x64", r#"{"data_seed":1,"elements":64,"eps":0.00001,"full":false,"rows":512}"#),
    ("gain-bias-distribution", r#"{"data_seed":1,"elements":64,"eps":0.00001,"rows":256}"#),
    ("train-test-bits", r#"{"data_seed":1,"full":false}"#),
    ("train-test-statistics-1", r#"{"batches":200,"seed":1}"#),
    (
        "robustness-input-100-weight-1",
        r#"{"case":"input-100-weight","full":false,"image":[28,28],"options":"","seed":1,"spec":{"arch":{"activation":"relu","hidden":[64,64,64],"kind":"mlp","output_norm":false},"batch_size":64,"data":"mnist-12k","evaluations":5,"final_rate":1.0,"input_scale":100.0,"learning_rate":0.001,"norm":"weight","optimizer":"adam","probes":{"activations":0,"correlation":0,"gradients":false,"moments":false,"time":false},"start":{"bias":0.0,"epsilon":0.00001,"gain":1.0,"seed":1,"weight_scale":1.0},"steps":100,"test":0,"train":2000,"trials":[],"validation":500}}"#,
    ),
];

#[test]
fn settings_are_those_of_earlier_records() {
    let plans: Vec<RunPlan> = catalog::all().into_iter().flat_map(|study| study.plan(&testing::settings())).collect();
    for (run, settings) in ON_DISK {
        let plan = plans.iter().find(|plan| plan.run() == run).unwrap_or_else(|| panic!("no run {run}"));
        assert_eq!(plan.header().settings.to_string(), settings, "{run}");
        assert_eq!(plan.spec().is_some(), settings.contains("spec"), "{run}");
    }
}

#[test]
fn a_plan_and_its_header_agree() {
    for plan in catalog::all().into_iter().flat_map(|study| study.plan(&Settings::default())) {
        let spec = plan.header().settings.get("spec");
        if let Some(language) = plan.language_spec() {
            assert_eq!(&language::Spec::deserialize(spec.unwrap()).unwrap(), language, "{}", plan.run());
        } else {
            let read = spec.map(|spec| Spec::deserialize(spec).unwrap());
            assert_eq!(read.as_ref(), plan.spec(), "{}", plan.run());
        }
        assert!(plan.effort() > 0.0);
    }
}
