//! The statistics against SciPy on random designs. Needs Python with SciPy: `IOLENS_PYTHON`, or `target/venv/bin/python`.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use iolens_core::analysis::math::distributions::{
    f_above, studentized_range_above, studentized_range_critical, t_critical,
};
use iolens_lab::statistics::anova::{mean_interval, tukey_hsd, two_way};

/// Runs `script` with `input` on its standard input; `None` (with a message) where SciPy is missing.
fn scipy(script: &str, input: &str) -> Option<Vec<f64>> {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/venv/bin/python");
    let python = std::env::var_os("IOLENS_PYTHON").map_or(venv, Into::into);
    let usable = Command::new(&python)
        .args(["-c", "import scipy.stats"])
        .stderr(Stdio::null())
        .status();
    if !usable.is_ok_and(|s| s.success()) {
        eprintln!(
            "SKIP: no Python with SciPy at {} (IOLENS_PYTHON names another)",
            python.display()
        );
        return None;
    }
    let mut child = Command::new(&python)
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(input.as_bytes())
        .expect("python reads");
    let out = child.wait_with_output().expect("python ends");
    assert!(out.status.success(), "the script failed");
    let text = String::from_utf8(out.stdout).expect("text");
    Some(
        text.split_whitespace()
            .map(|w| w.parse().expect("number"))
            .collect(),
    )
}

/// xorshift64*: designs that are the same on every run.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// Sum of twelve uniforms: near enough to a normal to look like measurements.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

fn agree(ours: f64, theirs: f64, relative: f64, what: &str) {
    assert!(
        (ours - theirs).abs() <= relative * theirs.abs().max(1e-3),
        "{what}: {ours} here, {theirs} there"
    );
}

#[test]
fn distributions_agree() {
    let mut r = Random(0x1234_5678_9abc_def1);
    let cases: Vec<(f64, usize, f64)> = (0..40)
        .map(|_| {
            (
                0.5 + 6.0 * r.unit(),
                2 + r.below(8),
                (1 + r.below(80)) as f64,
            )
        })
        .collect();
    let input: String = cases
        .iter()
        .map(|(q, k, df)| format!("{q} {k} {df}\n"))
        .collect();
    let script = "import sys\nfrom scipy import stats as s\nfor l in sys.stdin:\n q,k,d=map(float,l.split())\n \
        print(s.studentized_range.sf(q,k,d), s.studentized_range.ppf(0.95,k,d), s.f.sf(q,k,d), s.t.ppf(0.975,d))\n";
    let Some(theirs) = scipy(script, &input) else {
        return;
    };
    for ((q, k, df), t) in cases.into_iter().zip(theirs.chunks(4)) {
        let what = format!("q {q}, {k} groups, {df} degrees of freedom");
        agree(studentized_range_above(q, k, df), t[0], 1e-6, &what);
        agree(studentized_range_critical(0.05, k, df), t[1], 1e-6, &what);
        agree(f_above(q, k as f64, df), t[2], 1e-9, &what);
        agree(t_critical(0.05, df), t[3], 1e-9, &what);
    }
}

/// SciPy has no two-way analysis: the script builds it from least squares over nested designs, another way to the same
/// sums of squares, and takes Tukey's differences from its studentized range.
const DESIGN: &str = "
import sys, itertools, numpy as np
from scipy import stats as s
def rss(X, y):
    return float(np.sum((y - X @ np.linalg.lstsq(X, y, rcond=None)[0])**2))
for l in sys.stdin:
    v = list(map(float, l.split())); a, b, r = map(int, v[:3]); y = np.array(v[3:])
    idx = list(itertools.product(range(a), range(b), range(r)))
    one = np.ones((len(y), 1)); A = np.eye(a)[[i for i,_,_ in idx]]; B = np.eye(b)[[j for _,j,_ in idx]]
    AB = np.eye(a*b)[[i*b+j for i,j,_ in idx]]
    total, ra, rb, rab, full = rss(one,y), rss(A,y), rss(B,y), rss(np.hstack([A,B]),y), rss(AB,y)
    dfe = a*b*(r-1); mse = full/dfe
    f = lambda ss, df: (ss/df/mse, s.f.sf(ss/df/mse, df, dfe))
    out = [total, full, total-ra, total-rb, rab-full, *f(total-ra,a-1), *f(total-rb,b-1), *f(rab-full,(a-1)*(b-1))]
    m = y.reshape(a,b,r).mean(axis=(1,2)); se = np.sqrt(mse/(b*r))
    out += [s.studentized_range.sf(abs(m[0]-m[1])/se, a, dfe), s.studentized_range.ppf(0.95, a, dfe)*se]
    ci = s.t.interval(0.95, len(y)-1, loc=y.mean(), scale=s.sem(y)); out += [(ci[1]-ci[0])/2]
    print(*out)
";

#[test]
fn analyses_of_random_designs_agree() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut designs = Vec::new();
    for _ in 0..25 {
        let a = 2 + random.below(4);
        let b = 2 + random.below(4);
        let r = 2 + random.below(3);
        let effect: Vec<f64> = (0..a).map(|_| 2.0 * random.normal()).collect();
        let cells: Vec<Vec<Vec<f64>>> = effect
            .iter()
            .map(|e| {
                (0..b)
                    .map(|_| (0..r).map(|_| 50.0 + e + random.normal()).collect())
                    .collect()
            })
            .collect();
        designs.push((a, b, r, cells));
    }
    let line = |(a, b, r, cells): &(usize, usize, usize, Vec<Vec<Vec<f64>>>)| {
        let values: Vec<String> = cells
            .iter()
            .flatten()
            .flatten()
            .map(f64::to_string)
            .collect();
        format!("{a} {b} {r} {}\n", values.join(" "))
    };
    let Some(theirs) = scipy(DESIGN, &designs.iter().map(line).collect::<String>()) else {
        return;
    };
    for ((a, b, r, cells), t) in designs.into_iter().zip(theirs.chunks(14)) {
        let v = two_way(&cells).expect("balanced");
        let what = format!("{a} x {b} x {r}");
        let ab = v.interaction.expect("has replicates");
        let hsd = tukey_hsd(&v, 0.05);
        let all: Vec<f64> = cells.iter().flatten().flatten().copied().collect();
        let value = |x: Option<f64>| x.expect("tested");
        let ours = [
            v.total_ss,
            v.error.ss,
            v.a.ss,
            v.b.ss,
            ab.ss,
            value(v.a.f),
            value(v.a.p),
            value(v.b.f),
            value(v.b.p),
            value(ab.f),
            value(ab.p),
            hsd[0].p,
            hsd[0].half_width,
            value(mean_interval(&all, 0.05).expect("values").half_width),
        ];
        for (i, (o, t)) in ours.iter().zip(t).enumerate() {
            agree(*o, *t, 1e-6, &format!("{what}, number {i}"));
        }
    }
}
