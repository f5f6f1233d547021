//! Chart types and their data. `None`, NaN and infinities become `null`, which the page shows as a gap and mentions.

use serde::Serialize;

/// A chart with its title and caption.
#[derive(Debug, Clone, Serialize)]
pub struct Chart {
    /// Unique in its story; used in links.
    pub id: String,
    /// The heading.
    pub title: String,
    /// The caption.
    pub see: String,
    /// The data to draw.
    #[serde(flatten)]
    pub picture: Picture,
}

/// Chart types.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Picture {
    /// Curves, with a band if a series has `lo` and `hi`.
    Lines {
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// The curves.
        series: Vec<Series>,
        /// Whether a slider and a play button draw the curves up to a step.
        scrub: bool,
    },
    /// An animated profile, such as the gradient of each layer during training.
    Frames {
        /// The positions of a profile: `categories`, or numbers from 1.
        x: Axis,
        /// The vertical axis, the same in every frame.
        y: Axis,
        /// Names of the profiles.
        series: Vec<String>,
        /// The frames, in order.
        frames: Vec<Frame>,
    },
    /// Matrices side by side, with a common colour scale.
    Heatmaps {
        /// The matrices.
        maps: Vec<Map>,
        /// The value at the scale's lower end.
        low: f64,
        /// The value at the scale's upper end.
        high: f64,
        /// What the colours mean, such as `correlation`.
        scale: String,
    },
    /// Rotatable point clouds in three dimensions.
    Scatter3d {
        /// The clouds, side by side, rotated together.
        panels: Vec<Panel>,
        /// Names of the classes.
        classes: Vec<String>,
        /// Names of the axes.
        axes: [String; 3],
        /// Whether all axes of all clouds have one scale with 0 in the middle. Otherwise each fits its own range.
        #[serde(skip_serializing_if = "is_false")]
        equal: bool,
    },
    /// Histograms: up to three are overlaid, more are stacked vertically.
    Histograms {
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// The distributions.
        groups: Vec<Group>,
    },
    /// Grouped bars, with a whisker if a series has `lo` and `hi`.
    Bars {
        /// The horizontal axis, with `categories`.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// Series with one bar per category.
        series: Vec<Bars>,
    },
    /// A table of coloured cells, such as the paper's Table 1 or the map of learning rates.
    Grid {
        /// Names of the rows.
        rows: Vec<String>,
        /// Names of the columns.
        columns: Vec<String>,
        /// One list per row.
        cells: Vec<Vec<Tile>>,
        /// What the numbers mean.
        scale: String,
        /// What [`Tone::Good`] and [`Tone::Bad`] mean.
        tones: [&'static str; 2],
    },
    /// Sheets of small grey images, such as generated digits, one sheet per panel. With several frames, a slider and a
    /// play button show one after the other.
    Images {
        /// Rows of an image.
        rows: usize,
        /// Columns of an image.
        columns: usize,
        /// Names of the panels.
        panels: Vec<String>,
        /// The frames, in order.
        frames: Vec<Sheets>,
        /// What the grey values mean, such as `probability`; they range from 0 to 1.
        scale: String,
    },
    /// A worked example, one step at a time.
    Steps {
        /// The steps, in order.
        steps: Vec<Step>,
    },
    /// Quiz questions.
    Quiz {
        /// The questions.
        questions: Vec<Question>,
    },
    /// A plain table.
    Table(Table),
}

fn is_false(flag: &bool) -> bool {
    !flag
}

/// One axis.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Axis {
    /// What is measured.
    pub label: String,
    /// The unit, shown in parentheses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// Names of the positions, if they are not numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// Lower limit, if not that of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// Upper limit, if not that of the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// A curve. `y`, `lo` and `hi` are as long as `x`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    /// The name in the legend. The same normalization has the same colour in every chart.
    pub name: String,
    /// In increasing order.
    pub x: Vec<f64>,
    /// The values; `None` is a gap.
    pub y: Vec<Option<f64>>,
    /// The band's lower edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lo: Option<Vec<Option<f64>>>,
    /// The band's upper edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hi: Option<Vec<Option<f64>>>,
    /// Whether the curve is dashed, such as a theoretical reference.
    pub dashed: bool,
}

/// A frame of [`Picture::Frames`].
#[derive(Debug, Clone, Serialize)]
pub struct Frame {
    /// Such as `step 100`.
    pub label: String,
    /// One profile per series, one value per position.
    pub values: Vec<Vec<Option<f64>>>,
}

/// A frame of [`Picture::Images`].
#[derive(Debug, Clone, Serialize)]
pub struct Sheets {
    /// Such as `glimpse 3 of 8`.
    pub label: String,
    /// The images of each panel: row by row, one hexadecimal digit per pixel, from 0 to f.
    pub images: Vec<Vec<String>>,
}

/// A matrix of [`Picture::Heatmaps`].
#[derive(Debug, Clone, Serialize)]
pub struct Map {
    /// The heading.
    pub name: String,
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// Row by row, `rows · columns` long.
    pub values: Vec<f64>,
    /// Names of the units, if rows and columns are the same units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
}

/// A cloud of [`Picture::Scatter3d`].
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    /// The heading.
    pub name: String,
    /// x, y, z and the class index.
    pub points: Vec<[f64; 4]>,
    /// The radius of a sphere around the origin, drawn if all axes have one scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sphere: Option<f64>,
}

/// A distribution of [`Picture::Histograms`].
#[derive(Debug, Clone, Serialize)]
pub struct Group {
    /// The name in the legend.
    pub name: String,
    /// Bin edges in increasing order, one more than `counts`.
    pub edges: Vec<f64>,
    /// Count or fraction per bin.
    pub counts: Vec<f64>,
}

/// A series of [`Picture::Bars`].
#[derive(Debug, Clone, Default, Serialize)]
pub struct Bars {
    /// The name in the legend.
    pub name: String,
    /// One value per category.
    pub values: Vec<Option<f64>>,
    /// The whisker's lower end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lo: Option<Vec<Option<f64>>>,
    /// The whisker's upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hi: Option<Vec<Option<f64>>>,
}

/// A cell of [`Picture::Grid`].
#[derive(Debug, Clone, Serialize)]
pub struct Tile {
    /// Sets the shade if the tone is [`Tone::None`].
    pub value: Option<f64>,
    /// Text of the cell.
    pub text: String,
    /// Colour of the cell.
    pub tone: Tone,
    /// Tooltip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The colour of a [`Tile`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tone {
    /// Blue.
    Good,
    /// Orange and hatched.
    Bad,
    /// Shaded by value.
    #[default]
    None,
}

/// One step of [`Picture::Steps`].
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// The heading.
    pub title: String,
    /// The explanation.
    pub text: String,
    /// The matrices shown.
    pub matrices: Vec<Matrix>,
}

/// A small matrix.
#[derive(Debug, Clone, Serialize)]
pub struct Matrix {
    /// The heading.
    pub name: String,
    /// Row by row.
    pub rows: Vec<Vec<f64>>,
    /// The groups to highlight.
    pub highlight: Highlight,
}

/// Which numbers of a [`Matrix`] are normalized together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Highlight {
    /// Each row: layer normalization.
    Rows,
    /// Each column: batch normalization.
    Columns,
    /// Nothing.
    #[default]
    None,
}

/// A question of [`Picture::Quiz`].
#[derive(Debug, Clone, Serialize)]
pub struct Question {
    /// The question.
    pub text: String,
    /// The options.
    pub options: Vec<String>,
    /// Index of the correct option.
    pub right: usize,
    /// The explanation.
    pub why: String,
}

/// A table.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Row by row.
    pub rows: Vec<Vec<Cell>>,
    /// Notes below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A cell of a [`Table`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A number, formatted by the page.
    Number(f64),
    /// Links to places of the report, one below the other.
    Links(Vec<Link>),
    /// Empty, shown as a dash.
    Empty,
}

/// A link in a [`Cell`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Its text.
    pub text: String,
    /// Where it leads: a story, `story/chart` or `story/q-finding`. Plain text if empty.
    pub view: String,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Self::Empty, Self::Number)
    }
}
