//! The kinds of pictures and their data. `None`, NaN and infinities become `null`: a gap, which the page names.

use serde::Serialize;

/// A picture with what is said about it.
#[derive(Debug, Clone, Serialize)]
pub struct Chart {
    /// Unique in its story; stands in links.
    pub id: String,
    /// The heading.
    pub title: String,
    /// A sentence of what to see.
    pub see: String,
    /// The picture itself.
    #[serde(flatten)]
    pub picture: Picture,
}

/// The kinds of pictures.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Picture {
    /// Curves, with a band where a series has `lo` and `hi`.
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
    /// A profile that moves, such as the gradient of each layer over training.
    Frames {
        /// The places of a profile: `categories`, or numbers from 1.
        x: Axis,
        /// The vertical axis, the same in every frame.
        y: Axis,
        /// The names of the profiles.
        series: Vec<String>,
        /// The moments, in order.
        frames: Vec<Frame>,
    },
    /// Matrices side by side, on one colour scale.
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
    /// Points in space that can be turned.
    Scatter3d {
        /// The clouds, side by side, turned together.
        panels: Vec<Panel>,
        /// The classes' names.
        classes: Vec<String>,
        /// The axes' names.
        axes: [String; 3],
    },
    /// Distributions: over each other up to three, below each other above that.
    Histograms {
        /// The horizontal axis.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// The distributions.
        groups: Vec<Group>,
    },
    /// Grouped bars, with a whisker where a series has `lo` and `hi`.
    Bars {
        /// The horizontal axis, with `categories`.
        x: Axis,
        /// The vertical axis.
        y: Axis,
        /// One bar a category each.
        series: Vec<Bars>,
    },
    /// A table of coloured cells, such as the paper's Table 1 or the map of learning rates.
    Grid {
        /// The rows' names.
        rows: Vec<String>,
        /// The columns' names.
        columns: Vec<String>,
        /// One list a row.
        cells: Vec<Vec<Tile>>,
        /// What the colours mean.
        scale: String,
    },
    /// A worked example, one step at a time.
    Steps {
        /// The steps, in order.
        steps: Vec<Step>,
    },
    /// Questions to the reader.
    Quiz {
        /// The questions.
        questions: Vec<Question>,
    },
    /// A plain table.
    Table(Table),
}

/// One axis.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Axis {
    /// What is measured.
    pub label: String,
    /// In which unit; shown in brackets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// The names of the places, where they are not numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<String>>,
    /// The lower end, if not the data's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The upper end, if not the data's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

/// A curve. `y`, `lo` and `hi` are as long as `x`.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    /// The name in the legend. The same normalization has the same colour in every chart.
    pub name: String,
    /// Rising.
    pub x: Vec<f64>,
    /// The values; a gap where there is none.
    pub y: Vec<Option<f64>>,
    /// The band's lower edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lo: Option<Vec<Option<f64>>>,
    /// The band's upper edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hi: Option<Vec<Option<f64>>>,
    /// Whether the curve is a reference, such as a theory, and dashed.
    pub dashed: bool,
}

/// A moment of [`Picture::Frames`].
#[derive(Debug, Clone, Serialize)]
pub struct Frame {
    /// Such as `step 100`.
    pub label: String,
    /// One profile a series, one value a place.
    pub values: Vec<Vec<Option<f64>>>,
}

/// A matrix of [`Picture::Heatmaps`].
#[derive(Debug, Clone, Serialize)]
pub struct Map {
    /// The name above it.
    pub name: String,
    /// The number of rows.
    pub rows: usize,
    /// The number of columns.
    pub columns: usize,
    /// Row by row, `rows · columns` long.
    pub values: Vec<f64>,
    /// The units' names, where rows and columns are the same units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
}

/// A cloud of [`Picture::Scatter3d`].
#[derive(Debug, Clone, Serialize)]
pub struct Panel {
    /// The name above it.
    pub name: String,
    /// x, y, z and the number of the class.
    pub points: Vec<[f64; 4]>,
}

/// A distribution of [`Picture::Histograms`].
#[derive(Debug, Clone, Serialize)]
pub struct Group {
    /// The name in the legend.
    pub name: String,
    /// One more than `counts`, rising.
    pub edges: Vec<f64>,
    /// How many, or which share, between two edges.
    pub counts: Vec<f64>,
}

/// A series of [`Picture::Bars`].
#[derive(Debug, Clone, Default, Serialize)]
pub struct Bars {
    /// The name in the legend.
    pub name: String,
    /// One a category.
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
    /// Shades the cell where its tone is [`Tone::None`].
    pub value: Option<f64>,
    /// What stands in the cell.
    pub text: String,
    /// How the cell is coloured.
    pub tone: Tone,
    /// More, shown on demand.
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
    /// What happens.
    pub text: String,
    /// The numbers before and after.
    pub matrices: Vec<Matrix>,
}

/// A small matrix.
#[derive(Debug, Clone, Serialize)]
pub struct Matrix {
    /// The name above it.
    pub name: String,
    /// Row by row.
    pub rows: Vec<Vec<f64>>,
    /// What belongs together.
    pub highlight: Highlight,
}

/// What is normalized together in a [`Matrix`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Highlight {
    /// The numbers of a row: layer normalization.
    Rows,
    /// The numbers of a column: batch normalization.
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
    /// The answers to choose from.
    pub options: Vec<String>,
    /// The number of the right one, from 0.
    pub right: usize,
    /// Why it is right.
    pub why: String,
}

/// A table.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Table {
    /// The columns' names.
    pub columns: Vec<String>,
    /// Row by row.
    pub rows: Vec<Vec<Cell>>,
    /// Remarks below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A cell of a [`Table`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A number, which the page formats.
    Number(f64),
    /// Nothing: a dash.
    Empty,
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
