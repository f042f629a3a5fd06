//! Kubernetes quantities such as `10Gi`, `1.5G` or `500m`, for comparing volume sizes.

use std::str::FromStr;

/// A quantity is kept in billionths, the finest step Kubernetes knows.
const BILLION: i128 = 1_000_000_000;
/// The most digits a quantity may have; more than this cannot be a size.
const MOST_DIGITS: usize = 27;

/// A number with a unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity {
    billionths: i128,
}

/// A text that is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a quantity: use a number with an optional suffix such as Ki, Mi, Gi, Ti, k, M, G or T")]
pub struct QuantityError {
    text: String,
}

impl Quantity {
    /// Says whether the quantity is zero.
    pub fn is_zero(self) -> bool {
        self.billionths == 0
    }

    /// The quantity as a whole number; a fraction is rounded up.
    pub fn whole(self) -> i64 {
        let rest = i128::from(self.billionths % BILLION > 0);
        i64::try_from(self.billionths / BILLION + rest).unwrap_or(i64::MAX)
    }

    /// A number of bytes in the largest binary unit that holds it without a fraction, such as `2Gi`.
    pub fn in_binary(bytes: i64) -> String {
        let mut number = bytes;
        let mut suffix = "";
        for larger in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
            if number == 0 || number % 1024 != 0 {
                break;
            }
            number /= 1024;
            suffix = larger;
        }
        format!("{number}{suffix}")
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Self {
        Self { billionths: i128::from(number) * BILLION }
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        parse(text).ok_or_else(|| QuantityError { text: text.to_owned() })
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let number_length = unsigned.find(|character: char| !character.is_ascii_digit() && character != '.');
    let (number, suffix) = unsigned.split_at(number_length.unwrap_or(unsigned.len()));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || digits.len() > MOST_DIGITS || fraction.contains('.') {
        return None;
    }
    let mantissa = digits.parse::<i128>().ok()?;
    let (factor, decimal_exponent) = unit(suffix)?;
    let exponent = decimal_exponent - i32::try_from(fraction.len()).ok()?;
    Some(Quantity { billionths: sign * scaled(mantissa.saturating_mul(factor), exponent) })
}

/// Gives the factor and the power of ten of a suffix, billionths included.
fn unit(suffix: &str) -> Option<(i128, i32)> {
    let binary = |exponent: u32| (1i128 << exponent, 9);
    Some(match suffix {
        "" => (1, 9),
        "n" => (1, 0),
        "u" => (1, 3),
        "m" => (1, 6),
        "k" => (1, 12),
        "M" => (1, 15),
        "G" => (1, 18),
        "T" => (1, 21),
        "P" => (1, 24),
        "E" => (1, 27),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?;
            (1, exponent.checked_add(9)?)
        }
    })
}

/// Multiplies by a power of ten; what is finer than a billionth is rounded up, what is too large stays the largest.
fn scaled(mantissa: i128, exponent: i32) -> i128 {
    let power = 10i128.checked_pow(exponent.unsigned_abs()).unwrap_or(i128::MAX);
    if exponent >= 0 { mantissa.saturating_mul(power) } else { mantissa / power + i128::from(mantissa % power != 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_the_largest_unit_that_fits_and_read_back() {
        for (bytes, text) in
            [(0, "0"), (1, "1"), (1024, "1Ki"), (1025, "1025"), (1 << 30, "1Gi"), (3 << 29, "1536Mi"), (1 << 40, "1Ti")]
        {
            assert_eq!(Quantity::in_binary(bytes), text);
            assert_eq!(text.parse::<Quantity>().unwrap().whole(), bytes);
        }
        assert_eq!("1500m".parse::<Quantity>().unwrap().whole(), 2);
    }
    use proptest::prelude::*;
    use std::cmp::Ordering;

    fn quantity(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn quantities_compare_across_units() {
        let table = [
            ("1Gi", "1024Mi", Ordering::Equal),
            ("1Gi", "1G", Ordering::Greater),
            ("1000m", "1", Ordering::Equal),
            ("1.5Gi", "1536Mi", Ordering::Equal),
            ("0.5", "500m", Ordering::Equal),
            ("1e3", "1k", Ordering::Equal),
            ("1E3", "1E", Ordering::Less),
            ("1E", "1000P", Ordering::Equal),
            ("100n", "1u", Ordering::Less),
            ("-1", "0", Ordering::Less),
            (".5", "0.5", Ordering::Equal),
            ("5.", "5", Ordering::Equal),
            ("0.0000000001", "1n", Ordering::Equal),
            ("8Ei", "1e40", Ordering::Less),
        ];
        for (left, right, expected) in table {
            assert_eq!(quantity(left).cmp(&quantity(right)), expected, "{left} {right}");
        }
    }

    #[test]
    fn text_that_is_no_quantity_is_refused() {
        for text in ["", "Gi", "1gi", "1 Gi", "1.2.3", "--1", "1e", "1eX", "ten"] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[-+0-9.eEKMGTPinumk]{0,40}") {
            let _ = text.parse::<Quantity>();
        }
    }
}
