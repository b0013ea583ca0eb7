//! Drawings as SVG, without any font of this machine: the reader's own is used.

use std::fmt::Write;

const PANEL: [f64; 2] = [560.0, 380.0];
/// Edges of the coordinate system in its panel.
const LEFT: f64 = 76.0;
const RIGHT: f64 = 530.0;
const TOP: f64 = 68.0;
const BOTTOM: f64 = 324.0;
const MIDDLE: &str = "text-anchor=\"middle\"";
/// Readable on light and on dark paper.
const COLOURS: [&str; 5] = ["#2f7de1", "#e06c1e", "#2a9d57", "#b055d9", "#808a94"];
const STYLE: &str = "<style>\n.ink{fill:#1f2328}.line{stroke:#1f2328}.paper{fill:#ffffff}\n\
    @media (prefers-color-scheme: dark){.ink{fill:#e6edf3}.line{stroke:#e6edf3}.paper{fill:#0d1117}}\n\
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

/// An axis, with its unit in its label.
#[derive(Clone, Debug)]
pub(crate) struct Axis {
    label: String,
    scale: Scale,
}

#[derive(Clone, Copy, Debug)]
enum Scale {
    /// From zero.
    Linear,
    Log,
    /// Of shares below 1: 90 %, 99 %, 99.9 % in equal steps.
    Nines,
}

impl Curve {
    pub(crate) fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        let name = name.into();
        Self { name, points }
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

    /// Writes the panel.
    fn draw(&self, svg: &mut String) -> std::fmt::Result {
        let points = || self.curves.iter().flat_map(|curve| curve.points.iter());
        let x_marks = self.x.scale.marks(points().map(|point| point.0));
        let y_marks = self.y.scale.marks(points().map(|point| point.1));
        let x = |value| LEFT + (RIGHT - LEFT) * self.x.scale.share(&x_marks, value);
        let y = |value| BOTTOM - (BOTTOM - TOP) * self.y.scale.share(&y_marks, value);
        let middle = f64::midpoint(TOP, BOTTOM);
        let centre = f64::midpoint(LEFT, RIGHT);
        text(
            svg,
            centre,
            26.0,
            &format!("{MIDDLE} font-size=\"17\""),
            &self.title,
        )?;
        text(svg, centre, BOTTOM + 42.0, MIDDLE, &self.x.label)?;
        let turned = format!("{MIDDLE} transform=\"rotate(-90 18 {middle})\"");
        text(svg, 18.0, middle, &turned, &self.y.label)?;
        for value in &x_marks {
            let (x, label) = (x(*value), self.x.scale.label(*value));
            writeln!(
                svg,
                "<path class=\"line\" opacity=\"0.15\" d=\"M{x:.1} {TOP}V{BOTTOM}\"/>"
            )?;
            text(svg, x, BOTTOM + 20.0, MIDDLE, &label)?;
        }
        for value in &y_marks {
            let (y, label) = (y(*value), self.y.scale.label(*value));
            writeln!(
                svg,
                "<path class=\"line\" opacity=\"0.15\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>"
            )?;
            text(svg, LEFT - 8.0, y + 4.0, "text-anchor=\"end\"", &label)?;
        }
        writeln!(
            svg,
            "<path class=\"line\" fill=\"none\" d=\"M{LEFT} {TOP}V{BOTTOM}H{RIGHT}\"/>"
        )?;
        let mut left = LEFT;
        for (curve, colour) in self.curves.iter().zip(COLOURS.iter().cycle()) {
            // The legend is above the curves, where it covers none.
            writeln!(
                svg,
                "<path stroke=\"{colour}\" stroke-width=\"3\" d=\"M{left} 46h18\"/>"
            )?;
            text(svg, left + 24.0, 50.0, "", &curve.name)?;
            left += 44.0 + 7.0 * curve.name.chars().count() as f64;
            let points = curve.points.iter();
            let places: Vec<_> = points.map(|(at, value)| (x(*at), y(*value))).collect();
            let line = places.iter().map(|(x, y)| format!("{x:.1},{y:.1} "));
            writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>",
                line.collect::<String>()
            )?;
            for (x, y) in places.iter().filter(|_| places.len() < 8) {
                writeln!(
                    svg,
                    "<circle fill=\"{colour}\" r=\"3\" cx=\"{x:.1}\" cy=\"{y:.1}\"/>"
                )?;
            }
        }
        Ok(())
    }
}

/// Writes a text.
fn text(svg: &mut String, x: f64, y: f64, attributes: &str, text: &str) -> std::fmt::Result {
    writeln!(
        svg,
        "<text class=\"ink\" x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{text}</text>"
    )
}

impl Axis {
    fn new(label: &str, scale: Scale) -> Self {
        let label = label.to_owned();
        Self { label, scale }
    }

    pub(crate) fn linear(label: &str) -> Self {
        Self::new(label, Scale::Linear)
    }

    pub(crate) fn log(label: &str) -> Self {
        Self::new(label, Scale::Log)
    }
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Log => value.max(1e-9).log10(),
            Self::Nines => -(1.0 - value).log10(),
        }
    }

    /// Returns the values at which the axis has marks; its ends are the first and the last.
    fn marks(self, values: impl Iterator<Item = f64>) -> Vec<f64> {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (0.1, 0.9);
        }
        match self {
            Self::Linear => {
                let high = high.max(1e-6);
                let decade = 10_f64.powf((high / 4.0).log10().floor());
                // 1, 2 or 5 times a power of ten, of which three to eight make the whole.
                let steps = [5.0, 2.0, 1.0].map(|step| step * decade);
                let step = steps.into_iter().find(|step| high / step >= 3.0);
                let step = step.unwrap_or(decade);
                let last = (high / step).ceil().max(1.0) as u32;
                (0..=last).map(|mark| step * f64::from(mark)).collect()
            }
            Self::Log => {
                let first = (self.place(low) + 1e-9).floor() as i32;
                let last = ((self.place(high) - 1e-9).ceil() as i32).max(first + 1);
                let between: &[f64] = match last - first {
                    ..3 => &[1.0, 2.0, 5.0],
                    _ => &[1.0],
                };
                let decades = (first..last).map(|decade| 10_f64.powi(decade));
                decades
                    .flat_map(|decade| between.iter().map(move |mark| mark * decade))
                    .chain([10_f64.powi(last)])
                    .collect()
            }
            Self::Nines => {
                let last = ((self.place(high) - 1e-3).ceil() as i32).max(2);
                (0..=last).map(|nines| 1.0 - 10_f64.powi(-nines)).collect()
            }
        }
    }

    /// Returns how far a value is on the way from the first mark to the last.
    fn share(self, marks: &[f64], value: f64) -> f64 {
        let [first, .., last] = marks else { return 0.0 };
        let [first, last, value] = [*first, *last, value].map(|value| self.place(value));
        (value - first) / (last - first)
    }

    /// Shows a value with as many digits as it needs, and no zeros at its end.
    fn label(self, value: f64) -> String {
        let (value, unit) = match self {
            Self::Nines => (100.0 * value, " %"),
            Self::Log if value >= 1e3 => (value / 1e3, " k"),
            Self::Log | Self::Linear => (value, ""),
        };
        let text = format!("{value:.6}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Draws panels, two beside each other where there are several.
///
/// # Errors
///
/// Never: writing to a string does not fail.
pub(crate) fn draw(panels: &[Panel]) -> Result<String, std::fmt::Error> {
    let columns = panels.len().clamp(1, 2);
    let lines = panels.len().div_ceil(columns).max(1);
    let (width, height) = (PANEL[0] * columns as f64, PANEL[1] * lines as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n{STYLE}<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n"
    );
    for (place, panel) in panels.iter().enumerate() {
        let left = PANEL[0] * (place % columns) as f64;
        let top = PANEL[1] * (place / columns) as f64;
        writeln!(svg, "<g transform=\"translate({left} {top})\">")?;
        panel.draw(&mut svg)?;
        svg += "</g>\n";
    }
    Ok(svg + "</svg>\n")
}
