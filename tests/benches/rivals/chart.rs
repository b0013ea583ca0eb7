//! Drawings as SVG, without any font of this machine: the reader's own is used.

use std::ops::Range;

use anyhow::anyhow;
use plotters::{
    coord::{
        Shift,
        ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter},
    },
    prelude::*,
};

const PANEL: (u32, u32) = (560, 380);
const LEGEND: i32 = 22;
/// Stand-in for the drawing's text colour, which the style sheet replaces so that a page in dark colours is readable as well.
const INK: RGBColor = RGBColor(1, 2, 3);
const PAPER: RGBColor = RGBColor(253, 254, 253);
/// Readable on both.
const COLOURS: [RGBColor; 5] = [
    RGBColor(0x2f, 0x7d, 0xe1),
    RGBColor(0xe0, 0x6c, 0x1e),
    RGBColor(0x2a, 0x9d, 0x57),
    RGBColor(0xb0, 0x55, 0xd9),
    RGBColor(0x80, 0x8a, 0x94),
];
const STYLE: &str = "<style>\n.ink-text{fill:#1f2328}.ink-line{stroke:#1f2328}.paper{fill:#ffffff}\n\
    @media (prefers-color-scheme: dark){.ink-text{fill:#e6edf3}.ink-line{stroke:#e6edf3}.paper{fill:#0d1117}}\n\
    </style>\n";

/// A coordinate system with curves in it.
#[derive(Clone)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) curves: Vec<Curve>,
}

#[derive(Clone)]
pub(crate) struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scale {
    Linear,
    Log,
    /// Of shares below 1: 90 %, 99 %, 99.9 % in equal steps.
    Nines,
}

/// An axis, with its unit in its label.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    label: String,
    scale: Scale,
    /// By the scale.
    range: Range<f64>,
}

impl Curve {
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points,
        }
    }
}

impl Panel {
    /// Returns a panel of shares and the microseconds that they did not exceed.
    pub(crate) fn latency(title: &str, mut curves: Vec<Curve>) -> Self {
        for curve in &mut curves {
            // A share of 1 is beyond every nine.
            curve.points.retain(|(share, _)| *share < 0.99995);
            for (_, micros) in &mut curve.points {
                *micros /= 1e3;
            }
        }
        Self {
            title: title.to_owned(),
            x: Axis::new("share that took at most this long", Scale::Nines),
            y: Axis::log("time, ms (logarithmic)"),
            curves,
        }
    }
}

impl Axis {
    fn new(label: &str, scale: Scale) -> Self {
        Self {
            label: label.to_owned(),
            scale,
            range: 0.0..0.0,
        }
    }

    /// Returns a linear axis from zero.
    pub(crate) fn linear(label: &str) -> Self {
        Self::new(label, Scale::Linear)
    }

    pub(crate) fn log(label: &str) -> Self {
        Self::new(label, Scale::Log)
    }

    /// Returns a linear axis that begins elsewhere than at zero.
    pub(crate) fn from(mut self, start: f64) -> Self {
        self.range = start..start;
        self
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(1e-9).log10(),
            Scale::Nines => -(1.0 - value).log10(),
        }
    }

    /// Widens the range to hold all values.
    fn fit(&mut self, values: impl Iterator<Item = f64>) {
        let places: Vec<_> = values.map(|value| self.place(value)).collect();
        let low = places.iter().copied().fold(f64::INFINITY, f64::min);
        let high = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !(low.is_finite() && high.is_finite()) {
            self.range = 0.0..1.0;
            return;
        }
        self.range = match self.scale {
            Scale::Linear => {
                let start = self.range.start;
                let step = Self::step(high.max(start + 1e-6) - start);
                start..start + step * ((high - start) / step).ceil().max(1.0)
            }
            Scale::Log => {
                let low = (low + 1e-9).floor();
                low..(high - 1e-9).ceil().max(low + 1.0)
            }
            Scale::Nines => 0.0..(high - 1e-3).ceil().max(2.0),
        };
    }

    /// Returns 1, 2 or 5 times a power of ten, of which four to eight make the whole.
    fn step(whole: f64) -> f64 {
        let decade = 10_f64.powf((whole / 4.0).log10().floor());
        let steps = [5.0, 2.0, 1.0].map(|step| step * decade);
        steps
            .into_iter()
            .find(|step| whole / step >= 3.0)
            .unwrap_or(decade)
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        let width = self.range.end - self.range.start;
        let step = match self.scale {
            Scale::Linear if self.range.start > 0.0 => 1.0,
            Scale::Linear => Self::step(width),
            Scale::Log | Scale::Nines => 1.0,
        };
        let between: &[f64] = match self.scale {
            Scale::Log if width < 3.0 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let count = (width / step + 1e-6).floor() as u32;
        let at = |place: u32| self.range.start + f64::from(place) * step;
        (0..=count)
            .flat_map(|place| between.iter().map(move |share| at(place) + share.log10()))
            .filter(|place| *place <= self.range.end + 1e-6)
            .collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, place: &f64) -> String {
        // As many digits as such a number needs, and no zeros at its end.
        let plain = |value: f64| {
            let text = format!("{value:.6}");
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        };
        match self.scale {
            Scale::Linear => plain(*place),
            Scale::Log => {
                let value = 10_f64.powf(*place);
                if value >= 1e3 {
                    format!("{} k", plain(value / 1e3))
                } else {
                    plain(value)
                }
            }
            Scale::Nines => format!("{} %", plain(100.0 - 10_f64.powf(2.0 - place))),
        }
    }
}

/// Draws panels, two beside each other where there are several.
pub(crate) fn draw(panels: Vec<Panel>) -> anyhow::Result<String> {
    let columns = panels.len().clamp(1, 2);
    let lines = panels.len().div_ceil(columns).max(1);
    let size = (
        PANEL.0 * u32::try_from(columns)?,
        PANEL.1 * u32::try_from(lines)?,
    );
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&PAPER).map_err(failed)?;
        for (area, panel) in root.split_evenly((lines, columns)).iter().zip(panels) {
            draw_panel(area, panel)?;
        }
        root.present().map_err(failed)?;
    }
    Ok(styled(&svg))
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("failed to draw: {error}")
}

fn draw_panel(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: Panel) -> anyhow::Result<()> {
    let Panel {
        title,
        mut x,
        mut y,
        curves,
    } = panel;
    let points = || curves.iter().flat_map(|curve| curve.points.iter().copied());
    x.fit(points().map(|(x, _)| x));
    y.fit(points().map(|(_, y)| y));
    let text = |size: i32| ("sans-serif", size).into_font().color(&INK);
    let area = area.margin(8, 8, 8, 30);
    let area = area.titled(&title, text(17)).map_err(failed)?;
    let (legend, area) = area.split_vertically(LEGEND);
    draw_legend(&legend, &curves)?;
    let mut chart = ChartBuilder::on(&area)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .margin_top(8)
        .build_cartesian_2d(x.clone(), y.clone())
        .map_err(failed)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .bold_line_style(INK.mix(0.15))
        .axis_style(INK)
        .label_style(text(13))
        .axis_desc_style(text(14))
        .x_desc(x.label.clone())
        .y_desc(y.label.clone())
        .x_label_formatter(&|place| x.format_ext(place))
        .y_label_formatter(&|place| y.format_ext(place))
        .draw()
        .map_err(failed)?;
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let places: Vec<_> = curve
            .points
            .iter()
            .map(|(at, value)| (x.place(*at), y.place(*value)))
            .collect();
        let line = LineSeries::new(places.iter().copied(), colour.stroke_width(2));
        chart.draw_series(line).map_err(failed)?;
        if places.len() < 8 {
            let marks = places
                .iter()
                .map(|place| Circle::new(*place, 3, colour.filled()));
            chart.draw_series(marks).map_err(failed)?;
        }
    }
    Ok(())
}

/// Draws the legend above the curves, where it covers none.
fn draw_legend(area: &DrawingArea<SVGBackend<'_>, Shift>, curves: &[Curve]) -> anyhow::Result<()> {
    let mut left = 64;
    for (curve, colour) in curves.iter().zip(COLOURS.iter().cycle()) {
        let line = vec![(left, 11), (left + 18, 11)];
        area.draw(&PathElement::new(line, colour.stroke_width(3)))
            .map_err(failed)?;
        let style = ("sans-serif", 13).into_font().color(&INK);
        let name = Text::new(curve.name.clone(), (left + 24, 4), style);
        area.draw(&name).map_err(failed)?;
        left += 44 + 7 * i32::try_from(curve.name.chars().count())?;
    }
    Ok(())
}

/// Gives ink and paper to the style sheet.
fn styled(svg: &str) -> String {
    let start = svg.find('>').map_or(0, |end| end + 1);
    let (opening, rest) = svg.split_at(start);
    let rest = rest
        .replace("fill=\"#010203\"", "class=\"ink-text\"")
        .replace("stroke=\"#010203\"", "class=\"ink-line\"")
        .replace("fill=\"#FDFEFD\"", "class=\"paper\"");
    format!("{opening}\n{STYLE}{}\n", rest.trim())
}
