//! The size of each image's hidden units: radius ‖h‖/√units and mean. After layer norm without γ and β, every image has
//! mean 0 and radius 1, up to ε: its units lie on a sphere.

use super::{Layer, rounded};
use crate::training::events::{Geometry, Sizes, finite};

/// Digits kept: more than the rounding errors of f32, so that deviations from the sphere can be seen.
const DIGITS: f64 = 1e8;

/// Radius and mean of the first images, before and after the norm. If samples are positions of images, the first position
/// counts.
pub(super) fn of_layer(layer: &Layer, step: usize, images: usize, classes: &[u8]) -> Geometry {
    let sizes = |values: &[f32]| {
        let samples = values.len().checked_div(layer.units).unwrap_or(0);
        let positions = samples.checked_div(classes.len()).unwrap_or(0).max(1);
        let rows = || values.chunks(layer.units.max(1)).step_by(positions).zip(classes).take(images);
        Sizes {
            radius: rows().map(|(row, _)| size(row).0).collect(),
            mean: rows().map(|(row, _)| size(row).1).collect(),
            points: rows().filter_map(|(row, &class)| point(row, class)).collect(),
        }
    };
    let (before, after) = (sizes(&layer.before), sizes(&layer.after));
    Geometry { step, layer: layer.name.clone(), units: layer.units, before, after }
}

/// Radius and mean of an image's units.
fn size(row: &[f32]) -> (Option<f64>, Option<f64>) {
    let count = row.len().max(1) as f64;
    let square = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / count;
    let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
    (finite(kept(square.sqrt())), finite(kept(mean)))
}

fn kept(number: f64) -> f64 {
    (number * DIGITS).round() / DIGITS
}

/// Three units are a point in space.
fn point(row: &[f32], class: u8) -> Option<[f64; 4]> {
    let &[x, y, z] = row else { return None };
    let [x, y, z] = [x, y, z].map(|x| rounded(f64::from(x)));
    (x.is_finite() && y.is_finite() && z.is_finite()).then_some([x, y, z, f64::from(class)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radius_and_mean_are_those_of_each_image() {
        let layer = Layer {
            name: "layer 1".to_owned(),
            units: 3,
            before: vec![3.0, 4.0, 5.0, 1.0, 1.0, 1.0],
            after: vec![-1.0, 0.0, 1.0, f32::NAN, 0.0, 0.0],
        };
        let Geometry { before, after, units, .. } = of_layer(&layer, 0, 5, &[7, 1]);
        assert_eq!(units, 3);
        // √(50/3) and √(2/3), to eight decimals.
        assert_eq!((before.radius, before.mean), (vec![Some(4.08248290), Some(1.0)], vec![Some(4.0), Some(1.0)]));
        assert_eq!((after.radius, after.mean), (vec![Some(0.81649658), None], vec![Some(0.0), None]));
        assert_eq!(before.points, [[3.0, 4.0, 5.0, 7.0], [1.0, 1.0, 1.0, 1.0]]);
        assert_eq!(after.points, [[-1.0, 0.0, 1.0, 7.0]]);
        assert_eq!(of_layer(&layer, 0, 1, &[7, 1]).before.radius.len(), 1);
    }
}
