//! The autocorrelation of a series, by a fast Fourier transform.

/// Biased autocorrelation of `values` (mean removed) at lags `0..=max_lag`, scaled to 1 at lag 0; zeros for a constant.
pub fn autocorrelation(values: &[f64], max_lag: usize) -> Vec<f64> {
    Correlator::new(values.len(), max_lag).autocorrelation(values)
}

/// Correlates many series of one length: what does not depend on their values is made once.
pub struct Correlator {
    max_lag: usize,
    turns: Turns,
    re: Vec<f64>,
    im: Vec<f64>,
}

impl Correlator {
    /// For series of at most `n` values, and lags `0..=max_lag`.
    pub fn new(n: usize, max_lag: usize) -> Correlator {
        let size = (n + max_lag + 1).next_power_of_two().max(2);
        Correlator { max_lag, turns: Turns::new(size), re: vec![0.0; size], im: vec![0.0; size] }
    }

    /// As [`autocorrelation`].
    pub fn autocorrelation(&mut self, values: &[f64]) -> Vec<f64> {
        let (re, im) = (&mut self.re, &mut self.im);
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        re.fill(0.0);
        im.fill(0.0);
        for (r, v) in re.iter_mut().zip(values) {
            *r = v - mean;
        }
        self.turns.transform(re, im);
        for (r, i) in re.iter_mut().zip(im.iter_mut()) {
            (*r, *i) = (*r * *r + *i * *i, 0.0);
        }
        // The power spectrum is even and real: a second forward transform inverts it up to scale.
        self.turns.transform(re, im);
        let power = re[0];
        let varies = power > 1e-9 * re.len() as f64;
        re[..=self.max_lag].iter().map(|r| if varies { r / power } else { 0.0 }).collect()
    }
}

/// The roots of unity of one size.
pub(super) struct Turns {
    size: usize,
    /// For each length of a butterfly, 2 to the size, in this order: half as many cosines, and as many sines.
    roots: Vec<f64>,
}

impl Turns {
    /// `size` is a power of two.
    pub(super) fn new(size: usize) -> Turns {
        let angle = |k: usize| -std::f64::consts::TAU * k as f64 / size as f64;
        let half = size / 2;
        let cos: Vec<f64> = (0..half).map(|k| angle(k).cos()).collect();
        let sin: Vec<f64> = (0..half).map(|k| angle(k).sin()).collect();
        let mut roots = Vec::with_capacity(2 * size);
        let mut step = half;
        while step > 0 {
            roots.extend(cos.iter().step_by(step));
            roots.extend(sin.iter().step_by(step));
            step /= 2;
        }
        Turns { size, roots }
    }

    /// Cooley and Tukey, radix 2, in place; both have the length that [`Turns::new`] was given.
    pub(super) fn transform(&self, re: &mut [f64], im: &mut [f64]) {
        let bits = self.size.trailing_zeros();
        for i in 0..self.size {
            let j = (i as u32).reverse_bits() as usize >> (32 - bits);
            if i < j {
                re.swap(i, j);
                im.swap(i, j);
            }
        }
        let (mut len, mut roots) = (2, self.roots.as_slice());
        while len <= self.size {
            let (cos, rest) = roots.split_at(len / 2);
            let (sin, rest) = rest.split_at(len / 2);
            for (re, im) in re.chunks_exact_mut(len).zip(im.chunks_exact_mut(len)) {
                butterflies(cos, sin, re, im);
            }
            (len, roots) = (2 * len, rest);
        }
    }
}

/// One butterfly for each root; slices of one known length, so that several are done at once.
fn butterflies(cos: &[f64], sin: &[f64], re: &mut [f64], im: &mut [f64]) {
    let half = cos.len();
    let (re_a, re_b) = re.split_at_mut(half);
    let (im_a, im_b) = im.split_at_mut(half);
    let (sin, re_b, im_a, im_b) = (&sin[..half], &mut re_b[..half], &mut im_a[..half], &mut im_b[..half]);
    for k in 0..half {
        let (c, s) = (cos[k], sin[k]);
        let (r, i) = (re_b[k] * c - im_b[k] * s, re_b[k] * s + im_b[k] * c);
        (re_b[k], im_b[k]) = (re_a[k] - r, im_a[k] - i);
        (re_a[k], im_a[k]) = (re_a[k] + r, im_a[k] + i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_the_definition(values in prop::collection::vec(-100.0f64..100.0, 2..70)) {
            let n = values.len();
            let mean = values.iter().sum::<f64>() / n as f64;
            let at = |k: usize| (0..n - k).map(|i| (values[i] - mean) * (values[i + k] - mean)).sum::<f64>();
            let got = autocorrelation(&values, n / 3);
            prop_assume!(at(0) > 1e-6);
            for (k, r) in got.iter().enumerate() {
                prop_assert!((r - at(k) / at(0)).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_constant_has_none() {
        assert_eq!(autocorrelation(&[3.0; 10], 3), [0.0; 4]);
    }
}
