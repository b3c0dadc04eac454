//! The autocorrelation of a series, by a fast Fourier transform.

/// Biased autocorrelation of `values` (mean removed) at lags `0..=max_lag`, scaled to 1 at lag 0; zeros for a constant.
pub fn autocorrelation(values: &[f64], max_lag: usize) -> Vec<f64> {
    let n = values.len();
    let size = (n + max_lag + 1).next_power_of_two().max(2);
    let mean = values.iter().sum::<f64>() / n.max(1) as f64;
    let mut re: Vec<f64> = values.iter().map(|v| v - mean).collect();
    re.resize(size, 0.0);
    let mut im = vec![0.0; size];
    let turns = Turns::new(size);
    turns.transform(&mut re, &mut im);
    for (r, i) in re.iter_mut().zip(&mut im) {
        (*r, *i) = (*r * *r + *i * *i, 0.0);
    }
    // The power spectrum is even and real: a second forward transform inverts it up to scale.
    turns.transform(&mut re, &mut im);
    let power = re[0];
    (0..=max_lag).map(|k| if power > 1e-9 * size as f64 { re[k] / power } else { 0.0 }).collect()
}

/// The roots of unity of one size.
pub(super) struct Turns {
    cos: Vec<f64>,
    sin: Vec<f64>,
}

impl Turns {
    pub(super) fn new(size: usize) -> Turns {
        let angle = |k: usize| -std::f64::consts::TAU * k as f64 / size as f64;
        let half = size / 2;
        Turns { cos: (0..half).map(|k| angle(k).cos()).collect(), sin: (0..half).map(|k| angle(k).sin()).collect() }
    }

    /// Cooley and Tukey, radix 2, in place; the length is a power of two.
    pub(super) fn transform(&self, re: &mut [f64], im: &mut [f64]) {
        let n = re.len();
        let bits = n.trailing_zeros();
        for i in 0..n {
            let j = (i as u32).reverse_bits() as usize >> (32 - bits);
            if i < j {
                re.swap(i, j);
                im.swap(i, j);
            }
        }
        let mut len = 2;
        while len <= n {
            let (half, step) = (len / 2, n / len);
            for begin in (0..n).step_by(len) {
                for k in 0..half {
                    let (c, s) = (self.cos[k * step], self.sin[k * step]);
                    let (a, b) = (begin + k, begin + k + half);
                    let (r, i) = (re[b] * c - im[b] * s, re[b] * s + im[b] * c);
                    (re[b], im[b]) = (re[a] - r, im[a] - i);
                    (re[a], im[a]) = (re[a] + r, im[a] + i);
                }
            }
            len *= 2;
        }
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
